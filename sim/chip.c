/* chip.c -- the chips that are simulated, one row each.
 *
 * In: a name.  Out: its facts.  Sources: AMD's data sheets of MI300X and MI355X (units, clocks, memory), the CDNA3 and
 * CDNA4 ISA guides (registers, LDS), LLVM's AMDGPUUsage (EF_AMDGPU_MACH).  Everything that differs between the chips is
 * a field here, so that no other file names a chip. */
#include "sim.h"

#include <string.h>

static const struct sim_chip chips[] = {
	{
		.name = "gfx942", .product = "AMD Instinct MI300X", .elf_mach = 0x4c,
		.cus = 304, .simds_per_cu = 4, .xcds = 8,
		.lds_bytes = 64 * 1024, .lds_granule = 512, .vgprs = 512, .sgprs = 102,
		.clock_khz = 2100000, .fp8_fnuz = true, .gfx950 = false,
		.memory_bytes = 192ull << 30, .memory_clock_khz = 1300000, .memory_bus_bits = 8192, .l2_bytes = 4 << 20,
	},
	{
		.name = "gfx950", .product = "AMD Instinct MI355X", .elf_mach = 0x4f,
		.cus = 256, .simds_per_cu = 4, .xcds = 8,
		.lds_bytes = 160 * 1024, .lds_granule = 1280, .vgprs = 512, .sgprs = 102,
		.clock_khz = 2400000, .fp8_fnuz = false, .gfx950 = true,
		.memory_bytes = 288ull << 30, .memory_clock_khz = 2000000, .memory_bus_bits = 8192, .l2_bytes = 4 << 20,
	},
};

const struct sim_chip *sim_chip_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++)
		if (strcmp(chips[i].name, name) == 0)
			return &chips[i];
	return NULL;
}

const struct sim_chip *sim_chip_at(int index)
{
	return index >= 0 && (size_t)index < sizeof chips / sizeof chips[0] ? &chips[index] : NULL;
}
