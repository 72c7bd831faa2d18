/* module.c -- device functions of a pack's code objects, loaded when first needed.
 * One module for each (device, pack, object), under the device's lock; it stays until the pack or the device is closed. */
#include <stdlib.h>

#include "kernel.h"

static int module_get(void **module, tdsl_kernel k, tdsl_device d, uint32_t object)
{
	char err[512];
	uint8_t *image;
	size_t size;
	if ((*module = device_module_find(d, k->pack->serial, object)))
		return 0;
	int rc = pack_object_load(k->pack->file, object, &image, &size, err, sizeof err);
	if (rc < 0)
		return pack_fail(rc, err);
	rc = d->ops->module_load(d, module, image, size);
	if (rc == 0 && (rc = device_module_add(d, k->pack->serial, object, *module, image)) < 0)
		d->ops->module_unload(d, *module);
	if (rc < 0)
		free(image);
	return rc;
}

int kernel_function(void **function, struct launch_need *need, tdsl_kernel k, tdsl_device d, uint32_t object, const struct pack_launch *l)
{
	uintptr_t saved = 0;
	void *module;
	*need = (struct launch_need){.shared = l->lds > 0 ? (uint32_t)l->lds : 0, .kernarg_bytes = l->kernarg_bytes, .block = l->block, .meets = l->flags & PACK_MEETS};
	if (d->ops->enter)
		TRY(d->ops->enter(d, &saved));
	pthread_mutex_lock(&d->lock);
	int rc = module_get(&module, k, d, object);
	pthread_mutex_unlock(&d->lock);
	if (rc == 0)
		rc = d->ops->function(d, function, module, pack_string(k->pack->file, l->symbol), need);
	if (d->ops->leave)
		d->ops->leave(d, saved);
	return rc;
}
