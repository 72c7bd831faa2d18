/* list.h -- lists of tensors inside a call: the view of one, and the memory that its table names. */
#ifndef TDSL_RT_LIST_H
#define TDSL_RT_LIST_H
#include "view.h"

/* Fills in a present view whose dtype and host are set. */
int list_view(struct view *, const char *kernel, const char *param, const DLTensor *);
/* Of a list whose table is host memory: its tensors, and the bytes of one (name and writable are the caller's to set). */
int64_t list_count(uintptr_t table, const struct plan_tensor *);
struct host_range list_range(uintptr_t table, const struct plan_tensor *, int64_t index);
#endif
