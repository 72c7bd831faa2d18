/* view.h -- one tensor argument as its formal parameter sees it: rank reduced by folding, strides in elements and explicit. */
#ifndef TDSL_RT_VIEW_H
#define TDSL_RT_VIEW_H
#include "kernel.h"

/* Extents and the sizes in them: a loop counts its positions in 32 bits, those behind the end that its last chunk has too, which is at most 65,536
 * elements. */
enum { MOST_EXTENT = INT32_MAX - 65536 };
#define MOST_EXTENT_TEXT "2^31 - 65537"

struct view {
	bool present, host;
	bool list;                              /* stride: what divides all addresses and sizes, the lengths' digest; bytes: the table's */
	enum dtype dtype;
	uintptr_t address;
	int rank, extra;                        /* formal rank; leading dimensions folded into the first */
	int64_t extent[MODEL_MAX_RANK];
	int64_t stride[MODEL_MAX_RANK];         /* where extent <= 1: that of a compact tensor, whatever was given */
	bool flat;                              /* the folded dimensions have one stride */
	int64_t fold_inner, fold_stride;        /* second extent and first stride of the two groups; flat: 1, stride[0] */
	bool empty;                             /* no elements */
	struct plan_tensor bytes;
};

/* Reads parameter `index` of a call.  Absent optional tensors give present = false; so do absent outputs where `lenient`, and
 * then a NULL data pointer is no error either. */
int view_make(struct view *, tdsl_kernel, tdsl_device, int index, const DLTensor *, bool lenient);
/* True where tensors of these places and patterns share no byte. */
bool bytes_disjoint(uintptr_t a, const struct plan_tensor *, uintptr_t b, const struct plan_tensor *);
#endif
