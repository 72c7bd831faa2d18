/* hip_inside.h -- what the files of the HIP surface share: devices, the calling thread's state, handles, errors. */
#ifndef TDSL_SIM_HIP_INSIDE_H
#define TDSL_SIM_HIP_INSIDE_H
#include "hip_api.h"
#include "sim.h"
#include "tdsl_sim.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HIP_DEVICES_MAX = 16, HIP_REPORT_MAX = 2048 };

struct hip_device {
	const struct sim_chip *chip;
	int ordinal;
	struct sim_memory *memory;   /* what its kernels may touch */
	_Atomic uint64_t used;       /* bytes allocated */
	pthread_mutex_t lock;        /* of the two below */
	hipError_t fault;            /* of an earlier kernel; hipSuccess while the device is sound */
	char fault_report[HIP_REPORT_MAX];
};

struct hip_thread {
	int device;
	hipError_t last;
	char report[HIP_REPORT_MAX];
	struct sim_stats stats;
	uint64_t seed;
	int checks;                    /* 0 off, 1 on, -1 as the environment and the seed say */
};
struct hip_thread *hip_self(void);

/* Notes `code` and its text as the calling thread's last error; returns code. */
__attribute__((format(printf, 2, 3))) hipError_t hip_fail(hipError_t code, const char *fmt, ...);

/* Number of devices after initialising at first use; 0 with an error noted where that failed. */
int hip_device_count(void);
struct hip_device *hip_device(int ordinal); /* NULL and an error noted where there is none */
struct hip_device *hip_current(void);
/* hipSuccess, or the fault an earlier kernel left on the device, noted again. */
hipError_t hip_device_sound(struct hip_device *);
hipError_t hip_device_fault(struct hip_device *, hipError_t code, const char *report);

/* Handles given to the caller are pointers to structs that start so; the registry knows which are alive. */
enum hip_kind { HIP_STREAM = 1, HIP_EVENT, HIP_MODULE, HIP_FUNCTION };
struct hip_handle { enum hip_kind kind; struct hip_device *device; };
hipError_t hip_handle_add(struct hip_handle *);
void hip_handle_remove(struct hip_handle *);
/* The live handle of this kind, or NULL with hipErrorInvalidHandle noted. */
void *hip_handle_check(const void *handle, enum hip_kind kind);
/* Device of a stream (the current one for the default streams), or NULL with an error noted. */
struct hip_device *hip_stream_device(hipStream_t stream);

/* A copy of the ELF code object for `chip` that starts at `image`: the file itself, or its part of an offload bundle.
 * `size` is 0 where the caller does not know it.  *bytes is to be freed. */
hipError_t hip_image_copy(const void *image, size_t size, const struct sim_chip *chip, void **bytes, size_t *length);

#define HIP_TRY(call) do { hipError_t e_ = (call); if (e_ != hipSuccess) return e_; } while (0)
#endif
