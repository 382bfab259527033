/* Look-ups in what a kernel declares. */
#include "compiler/base/base.h"

const SearchDim *signature_search(const Signature *signature, const char *interned_name) {
    for (int i = 0; i < signature->search.count; i++)
        if (signature->search.items[i].name == interned_name)
            return &signature->search.items[i];
    return NULL;
}

int signature_param(const Signature *signature, const char *interned_name) {
    for (int i = 0; i < signature->params.count; i++)
        if (signature->params.items[i].name == interned_name)
            return i;
    return -1;
}
