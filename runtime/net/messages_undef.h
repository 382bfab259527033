/* Ends one reading of messages.def. No include guard: it is included once a reading. */
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
