/* hip_image.c -- finds and copies the code object that a module is loaded from.
 *
 * In: a pointer without a size, as hipModuleLoadData takes it, or a file's bytes.  Out: a copy of the ELF file for one
 * chip.  HIP's image may be an ELF file, whose size follows from its headers, or a clang offload bundle of several.
 * A damaged header may promise more bytes than there are: the image is therefore read with process_vm_readv, which
 * answers with an error where a plain read would crash, and the size of a copy is bounded. */
#include "hip_inside.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { IMAGE_MAX = 1 << 30, BUNDLES_MAX = 1024 };
static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";

struct source { const char *base; size_t size; }; /* size: SIZE_MAX where it is not known */

static bool source_read(const struct source *s, void *dst, uint64_t offset, size_t size)
{
	if (offset > s->size || size > s->size - offset || offset > IMAGE_MAX)
		return false;
	if (s->size != SIZE_MAX) {
		memcpy(dst, s->base + offset, size);
		return true;
	}
	struct iovec to = {dst, size}, from = {(void *)(s->base + offset), size};
	ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM)) { /* not allowed here: trust the image as a driver does */
		memcpy(dst, s->base + offset, size);
		return true;
	}
	return n == (ssize_t)size;
}

static void extend(uint64_t *end, uint64_t offset, uint64_t size)
{
	uint64_t e;
	if (__builtin_add_overflow(offset, size, &e))
		e = UINT64_MAX;
	if (e > *end)
		*end = e;
}

/* The size of the ELF file at the start of the source, from its headers; 0 where they cannot be read. */
static uint64_t elf_size(const struct source *s)
{
	Elf64_Ehdr h;
	Elf64_Phdr p;
	Elf64_Shdr sh;
	uint64_t end = sizeof h;
	if (!source_read(s, &h, 0, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	extend(&end, h.e_phoff, (uint64_t)h.e_phnum * sizeof p);
	extend(&end, h.e_shoff, (uint64_t)h.e_shnum * sizeof sh);
	if (end > IMAGE_MAX)
		return 0;
	for (unsigned i = 0; i < h.e_phnum; i++) {
		if (!source_read(s, &p, h.e_phoff + i * sizeof p, sizeof p))
			return 0;
		extend(&end, p.p_offset, p.p_filesz);
	}
	for (unsigned i = 0; i < h.e_shnum; i++) {
		if (!source_read(s, &sh, h.e_shoff + i * sizeof sh, sizeof sh))
			return 0;
		if (sh.sh_type != SHT_NOBITS)
			extend(&end, sh.sh_offset, sh.sh_size);
	}
	return end > IMAGE_MAX ? 0 : end;
}

/* Narrows the source to the bundle entry for the chip: its id is "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+" or alike. */
static hipError_t bundle_select(struct source *s, const struct sim_chip *chip)
{
	uint64_t count, at = sizeof bundle_magic - 1, entry[3];
	char id[128];
	if (!source_read(s, &count, at, 8) || count > BUNDLES_MAX)
		return hip_fail(hipErrorInvalidImage, "malformed offload bundle");
	at += 8;
	for (uint64_t i = 0; i < count; i++) {
		if (!source_read(s, entry, at, sizeof entry) || entry[2] >= sizeof id || !source_read(s, id, at + sizeof entry, entry[2]))
			return hip_fail(hipErrorInvalidImage, "malformed offload bundle");
		id[entry[2]] = 0;
		at += sizeof entry + entry[2];
		const char *target = strstr(id, "--");
		size_t n = strlen(chip->name);
		if (strncmp(id, "hip", 3) != 0 || !target || strncmp(target + 2, chip->name, n) != 0 ||
		    (target[2 + n] && target[2 + n] != ':') || strstr(target, "xnack+") || strstr(target, "sramecc-"))
			continue;
		if (entry[0] > IMAGE_MAX || entry[1] > IMAGE_MAX || entry[0] > s->size || entry[1] > s->size - entry[0])
			return hip_fail(hipErrorInvalidImage, "malformed offload bundle");
		*s = (struct source){s->base + entry[0], s->size == SIZE_MAX ? SIZE_MAX : entry[1]};
		return hipSuccess;
	}
	return hip_fail(hipErrorNoBinaryForGpu, "the offload bundle has no code object for %s", chip->name);
}

hipError_t hip_image_copy(const void *image, size_t size, const struct sim_chip *chip, void **bytes, size_t *length)
{
	struct source s = {image, size ? size : SIZE_MAX};
	char magic[sizeof bundle_magic - 1];
	if (!image)
		return hip_fail(hipErrorInvalidValue, "image is NULL");
	if (source_read(&s, magic, 0, sizeof magic) && memcmp(magic, bundle_magic, sizeof magic) == 0)
		HIP_TRY(bundle_select(&s, chip));
	uint64_t n = s.size == SIZE_MAX ? elf_size(&s) : s.size;
	if (n == 0)
		return hip_fail(hipErrorInvalidImage, "the image is no ELF code object, or is damaged");
	char *copy = malloc(n);
	if (!copy)
		return hip_fail(hipErrorOutOfMemory, "no memory for an image of %llu bytes", (unsigned long long)n);
	if (!source_read(&s, copy, 0, n)) {
		free(copy);
		return hip_fail(hipErrorInvalidImage, "truncated: the image's headers promise %llu bytes", (unsigned long long)n);
	}
	*bytes = copy;
	*length = n;
	return hipSuccess;
}
