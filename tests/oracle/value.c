/* Scalars, tiles and tensors as plain arrays. */
#include "tests/oracle/interpret.h"

int64_t value_count(const Value *value) {
    int64_t count = 1;
    for (int axis = 0; axis < value->rank; axis++)
        count *= value->extent[axis];
    return count;
}

bool index_next(int rank, const int64_t *extent, int64_t *index) {
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (++index[axis] < extent[axis])
            return true;
        index[axis] = 0;
    }
    return false;
}

Number value_meet(const Value *value, int rank, const int64_t *index) {
    int64_t at = 0;
    for (int axis = 0; axis < value->rank; axis++) {
        int from = axis + rank - value->rank; /* aligned at the last axis */
        int64_t position = value->extent[axis] == 1 ? 0 : index[from];
        at = at * value->extent[axis] + position;
    }
    return value->at[at];
}

Value value_as_matrix(Value value) {
    Value matrix = {.scalar = value.scalar, .rank = 2, .extent = {1, 1}, .at = value.at};
    for (int axis = 0; axis < value.rank; axis++)
        matrix.extent[axis + 2 - value.rank] = value.extent[axis];
    return matrix;
}

Value new_value(Interpreter *in, PhbDType scalar, int rank, const int64_t *extent) {
    Value value = {.scalar = scalar, .rank = rank};
    for (int axis = 0; axis < rank; axis++)
        value.extent[axis] = extent[axis];
    int64_t count = value_count(&value);
    in->work += count;
    if (in->work > in->problem->max_work)
        stop(in, OUTCOME_TOO_LONG);
    value.at = NEW_ARRAY(in->arena, Number, count);
    return value;
}

Value new_scalar(Interpreter *in, PhbDType scalar, Number number) {
    Value value = new_value(in, scalar, 0, NULL);
    value.at[0] = number;
    return value;
}

Value new_value_of(Interpreter *in, const Type *type) {
    int64_t extent[PHB_MAX_RANK];
    for (int axis = 0; axis < type->rank; axis++)
        extent[axis] = static_dim(in, type->dims[axis]);
    return new_value(in, type->scalar, type->rank, extent);
}
