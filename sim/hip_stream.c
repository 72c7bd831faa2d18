/* hip_stream.c -- HIP's streams and events.
 *
 * A launch or copy is done when its call returns, so a stream is only a name for a device and an order that holds by
 * itself; an event is the time at which it was recorded.  Stream capture is refused, as nothing is ever recorded.  The
 * faults of a device show wherever a real driver shows them: at synchronising, querying and recording. */
#include "hip_inside.h"

#include <stdlib.h>
#include <time.h>

struct ihipStream_t { struct hip_handle handle; };
struct ihipEvent_t {
	struct hip_handle handle;
	unsigned flags;
	_Atomic uint64_t recorded_ns; /* 0: not yet */
};

struct hip_device *hip_stream_device(hipStream_t stream)
{
	/* 0, 1 and 2 are the default, the legacy and the per-thread stream */
	if ((uintptr_t)stream <= 2)
		return hip_current();
	struct hip_handle *h = hip_handle_check(stream, HIP_STREAM);
	return h ? h->device : NULL;
}

static hipError_t stream_sound(hipStream_t stream)
{
	struct hip_device *d = hip_stream_device(stream);
	return d ? hip_device_sound(d) : hip_self()->last;
}

static hipError_t stream_create(hipStream_t *stream, unsigned flags)
{
	struct hip_device *d = hip_current();
	if (!d)
		return hip_self()->last;
	if (!stream || flags > hipStreamNonBlocking)
		return hip_fail(hipErrorInvalidValue, "hipStreamCreate: %s", stream ? "unknown flags" : "stream is NULL");
	struct ihipStream_t *s = calloc(1, sizeof *s);
	if (!s)
		return hip_fail(hipErrorOutOfMemory, "no memory for a stream");
	s->handle = (struct hip_handle){HIP_STREAM, d};
	hipError_t e = hip_handle_add(&s->handle);
	if (e != hipSuccess)
		free(s);
	else
		*stream = s;
	return e;
}

hipError_t hipStreamCreate(hipStream_t *stream) { return stream_create(stream, hipStreamDefault); }
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags) { return stream_create(stream, flags); }

hipError_t hipStreamDestroy(hipStream_t stream)
{
	struct ihipStream_t *s = hip_handle_check(stream, HIP_STREAM);
	if (!s)
		return hip_self()->last;
	hip_handle_remove(&s->handle);
	free(s);
	return hipSuccess;
}

hipError_t hipStreamSynchronize(hipStream_t stream) { return stream_sound(stream); }
hipError_t hipStreamQuery(hipStream_t stream) { return stream_sound(stream); }

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
	if (flags != 0)
		return hip_fail(hipErrorInvalidValue, "hipStreamWaitEvent: flags must be 0");
	if (!hip_handle_check(event, HIP_EVENT))
		return hip_self()->last;
	return stream_sound(stream);
}

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
	(void)mode;
	if (!hip_stream_device(stream))
		return hip_self()->last;
	return hip_fail(hipErrorNotSupported, "the simulated device does not capture streams");
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph)
{
	if (graph)
		*graph = NULL;
	if (!hip_stream_device(stream))
		return hip_self()->last;
	return hip_fail(hipErrorNotSupported, "the simulated device does not capture streams");
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status)
{
	if (!status)
		return hip_fail(hipErrorInvalidValue, "status is NULL");
	if (!hip_stream_device(stream))
		return hip_self()->last;
	*status = hipStreamCaptureStatusNone;
	return hipSuccess;
}

static hipError_t event_create(hipEvent_t *event, unsigned flags)
{
	struct hip_device *d = hip_current();
	if (!d)
		return hip_self()->last;
	if (!event)
		return hip_fail(hipErrorInvalidValue, "event is NULL");
	struct ihipEvent_t *v = calloc(1, sizeof *v);
	if (!v)
		return hip_fail(hipErrorOutOfMemory, "no memory for an event");
	v->handle = (struct hip_handle){HIP_EVENT, d};
	v->flags = flags;
	hipError_t e = hip_handle_add(&v->handle);
	if (e != hipSuccess)
		free(v);
	else
		*event = v;
	return e;
}

hipError_t hipEventCreate(hipEvent_t *event) { return event_create(event, hipEventDefault); }
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags) { return event_create(event, flags); }

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
	struct timespec t;
	struct ihipEvent_t *v = hip_handle_check(event, HIP_EVENT);
	if (!v)
		return hip_self()->last;
	HIP_TRY(stream_sound(stream));
	clock_gettime(CLOCK_MONOTONIC, &t);
	v->recorded_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return hipSuccess;
}

static hipError_t event_sound(hipEvent_t event)
{
	struct ihipEvent_t *v = hip_handle_check(event, HIP_EVENT);
	return v ? hip_device_sound(v->handle.device) : hip_self()->last;
}
hipError_t hipEventSynchronize(hipEvent_t event) { return event_sound(event); }
hipError_t hipEventQuery(hipEvent_t event) { return event_sound(event); }

hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop)
{
	struct ihipEvent_t *a = hip_handle_check(start, HIP_EVENT), *b = hip_handle_check(stop, HIP_EVENT);
	if (!a || !b)
		return hip_self()->last;
	if (!ms)
		return hip_fail(hipErrorInvalidValue, "ms is NULL");
	if ((a->flags | b->flags) & hipEventDisableTiming)
		return hip_fail(hipErrorInvalidHandle, "an event was created without timing");
	if (!a->recorded_ns || !b->recorded_ns)
		return hip_fail(hipErrorInvalidHandle, "an event was not recorded");
	*ms = (float)((double)(int64_t)(b->recorded_ns - a->recorded_ns) * 1e-6);
	return hipSuccess;
}

hipError_t hipEventDestroy(hipEvent_t event)
{
	struct ihipEvent_t *v = hip_handle_check(event, HIP_EVENT);
	if (!v)
		return hip_self()->last;
	hip_handle_remove(&v->handle);
	free(v);
	return hipSuccess;
}
