/* One reading of messages.def: what the reader has not defined stands for nothing; all of it is undefined afterwards. No include guard. */
#ifndef RECORD_BEGIN
#define RECORD_BEGIN(T)
#endif
#ifndef RECORD_END
#define RECORD_END(T)
#endif
#ifndef MESSAGE_BEGIN
#define MESSAGE_BEGIN(T, id, number)
#endif
#ifndef MESSAGE_END
#define MESSAGE_END(T)
#endif
#ifndef U8
#define U8(T, f)
#endif
#ifndef U16
#define U16(T, f)
#endif
#ifndef U32
#define U32(T, f)
#endif
#ifndef U64
#define U64(T, f)
#endif
#ifndef I64
#define I64(T, f)
#endif
#ifndef I64S
#define I64S(T, f, n)
#endif
#ifndef BYTES
#define BYTES(T, f, n)
#endif
#ifndef TEXT
#define TEXT(T, f, n)
#endif
#ifndef LIST
#define LIST(T, f, C, E, n)
#endif
#ifndef RECORDS
#define RECORDS(T, f, R, n)
#endif
#ifndef BULK
#define BULK(T, n)
#endif
#include "runtime/net/messages.def"
#undef RECORD_BEGIN
#undef RECORD_END
#undef MESSAGE_BEGIN
#undef MESSAGE_END
#undef U8
#undef U16
#undef U32
#undef U64
#undef I64
#undef I64S
#undef BYTES
#undef TEXT
#undef LIST
#undef RECORDS
#undef BULK
