/* h200_node.h -- what the driver tells of a kernel in a graph: CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h. */
#ifndef TDSL_H200_NODE_H
#define TDSL_H200_NODE_H

struct node { struct CUfunc_st *function; unsigned grid[3], block[3], shared; void **params, **extra; void *kernel, *context; };

#endif
