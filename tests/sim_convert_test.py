"""sim_convert_test.py TDSL_SIM -- the conversion instructions of both chips against ml_dtypes, code by code.

TDSL_SIM is the tool that runs a code object. Every conversion is a kernel of its own (llvm-mc-22, ld.lld-22), one lane a pattern: all 256
codes of 8-bit floats, all 64 of 6 bits, all 16 of 4 bits, all 65,536 of bf16 and f16 to f32; to the narrow formats every bf16 pattern, every
value of the format, the ties between neighbours, one f32 step about both, and random f32 patterns, where there is a mode under FP16_OVFL
clear and set. Needs numpy and ml_dtypes. Prints one line a conversion and the number of differences; exit 0 when there are none.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

import safetensors

np.seterr(all="ignore")
TOOL = sys.argv[1]
FP8 = {"gfx942": ml_dtypes.float8_e4m3fnuz, "gfx950": ml_dtypes.float8_e4m3fn}
BF8 = {"gfx942": ml_dtypes.float8_e5m2fnuz, "gfx950": ml_dtypes.float8_e5m2}
SIX = {"fp6": ml_dtypes.float6_e2m3fn, "bf6": ml_dtypes.float6_e3m2fn}
BOTH, LATER = ("gfx942", "gfx950"), ("gfx950",)
OVFL = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n "

# name, chips, instruction from v[4:..] to v[40:..], dwords in and out a lane
WIDEN = [(f"v_cvt_f32_{t}", BOTH, f"v_cvt_f32_{t} v40, v4", 1, 1, t) for t in ("fp8", "bf8", "f16")]
WIDEN += [("v_cvt_f32_bf16", LATER, "v_cvt_f32_bf16 v40, v4", 1, 1, "bf16")]
WIDEN += [(f"v_cvt_pk_f32_{t}", BOTH, f"v_cvt_pk_f32_{t} v[40:41], v4", 1, 2, t) for t in ("fp8", "bf8")]
WIDEN += [(f"v_cvt_scalef32_pk_f32_{t}", LATER, f"v_cvt_scalef32_pk_f32_{t} v[40:41], v4, 1.0", 1, 2, t) for t in ("fp8", "bf8", "fp4")]
WIDEN += [(f"v_cvt_scalef32_f32_{t}", LATER, f"v_cvt_scalef32_f32_{t} v40, v4, 1.0", 1, 1, t) for t in ("fp8", "bf8")]
WIDEN += [(f"v_cvt_scalef32_pk32_f32_{t}", LATER, f"v_cvt_scalef32_pk32_f32_{t} v[40:71], v[4:9], 1.0", 6, 32, t) for t in SIX]
# .. and the format of the result, whether FP16_OVFL saturates
NARROW = [(f"v_cvt_pk_{t}_f32", BOTH, f"v_mov_b32 v40, 0\n v_cvt_pk_{t}_f32 v40, v4, v4", 1, 1, t, True) for t in ("fp8", "bf8")]
NARROW += [("v_cvt_f16_f32", BOTH, "v_cvt_f16_f32 v40, v4", 1, 1, "f16", True)]
NARROW += [("v_cvt_pk_bf16_f32", LATER, "v_cvt_pk_bf16_f32 v40, v4, v4", 1, 1, "bf16", False)]
NARROW += [(f"v_cvt_scalef32_pk_{t}_f32", LATER, f"v_mov_b32 v40, 0\n v_cvt_scalef32_pk_{t}_f32 v40, v4, v4, 1.0", 1, 1, t, False) for t in ("fp8", "bf8", "fp4")]
NARROW += [(f"v_cvt_scalef32_2xpk16_{t}_f32", LATER, f"v_cvt_scalef32_2xpk16_{t}_f32 v[40:45], v[4:19], v[20:35], 1.0", 32, 6, t, False) for t in SIX]

KERNEL = """.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
 s_load_dwordx4 s[4:7], s[0:1], 0x0
 v_lshlrev_b32 v0, 2, v0
 s_waitcnt lgkmcnt(0)
 s_mul_i32 s8, s2, {in_bytes}
 s_add_u32 s4, s4, s8
 s_addc_u32 s5, s5, 0
 s_mul_i32 s8, s2, {out_bytes}
 s_add_u32 s6, s6, s8
 s_addc_u32 s7, s7, 0
{loads}
 s_waitcnt vmcnt(0)
 {code}
 s_nop 7
{stores}
 s_endpgm
 .size {name}, .-{name}
.section .rodata,"a"
.p2align 6
.amdhsa_kernel {name}
 .amdhsa_kernarg_size 16
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_next_free_vgpr 80
 .amdhsa_next_free_sgpr 16
 .amdhsa_accum_offset 80
 .amdhsa_float_denorm_mode_32 3
 .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
"""
METADATA = """ - {{.name: {name}, .symbol: {name}.kd, .kernarg_segment_size: 16, .group_segment_fixed_size: 0, .private_segment_fixed_size: 0,
   .kernarg_segment_align: 8, .wavefront_size: 64, .sgpr_count: 22, .vgpr_count: 80, .max_flat_workgroup_size: 64,
   .args: [{{.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}}, {{.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}}]}}
"""


def moves(what, first, base, n):
    """n dwords a lane to or from rows of 64."""
    step = f"s_add_u32 s{base}, s{base}, 256\n s_addc_u32 s{base + 1}, s{base + 1}, 0"
    one = {"load": "global_load_dword v{r}, v0, s[{b}:{e}]", "store": "global_store_dword v0, v{r}, s[{b}:{e}]"}[what]
    return "\n ".join(" " + one.format(r=first + i, b=base, e=base + 1) + "\n " + step for i in range(n))


class Chip:
    """The kernels of one chip in one code object; run(name, rows of dwords) gives rows of dwords."""

    def __init__(self, chip, folder):
        self.chip, self.folder, self.counts, text, data = chip, folder, {}, "", ""
        for name, chips, code, n, m, *_ in WIDEN + NARROW:
            for ovfl in (0, 1) if chip in chips else ():
                self.counts[f"{name}_{ovfl}"] = n, m
                text += KERNEL.format(name=f"{name}_{ovfl}", code=(OVFL if ovfl else "") + code, in_bytes=256 * n, out_bytes=256 * m,
                                      loads=moves("load", 4, 4, n), stores=moves("store", 40, 6, m))
                data += METADATA.format(name=f"{name}_{ovfl}")
        (folder / "a.s").write_text(text + f".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--{chip}\namdhsa.kernels:\n{data}...\n.end_amdgpu_metadata\n")
        subprocess.run(["llvm-mc-22", "-triple=amdgcn-amd-amdhsa", f"-mcpu={chip}", "-filetype=obj", folder / "a.s", "-o", folder / "a.o"], check=True)
        subprocess.run(["ld.lld-22", "-shared", folder / "a.o", "-o", folder / f"{chip}.hsaco"], check=True)

    def run(self, name, dwords):
        """dwords[lane, register] in and out."""
        n, m = self.counts[name]
        groups = -(-len(dwords) // 64)
        whole = np.zeros((groups * 64, n), np.uint32)
        whole[:len(dwords)] = dwords
        rows = np.ascontiguousarray(whole.reshape(groups, 64, n).transpose(0, 2, 1))
        safetensors.write(self.folder / "in", {"x": rows.reshape(-1).view(np.int32), "y": np.zeros(groups * 64 * m, np.int32)})
        subprocess.run([TOOL, self.folder / f"{self.chip}.hsaco", name, "--grid", str(groups), "--block", "64", "--arg", "buf:x", "--arg", "buf:y",
                        "--in", self.folder / "in", "--out", self.folder / "out", "--checks"], check=True)
        out = safetensors.read(self.folder / "out")["y"].view(np.uint32).reshape(groups, m, 64).transpose(0, 2, 1).reshape(groups * 64, m)
        return out[:len(dwords)]


def dtype_of(kind, chip):
    types = {"fp8": FP8[chip], "bf8": BF8[chip], "f16": np.float16, "bf16": ml_dtypes.bfloat16, "fp4": ml_dtypes.float4_e2m1fn, **SIX}
    bits = {"fp8": 8, "bf8": 8, "f16": 16, "bf16": 16, "fp4": 4, "fp6": 6, "bf6": 6}[kind]
    return np.dtype(types[kind]), bits, np.uint16 if bits == 16 else np.uint8


def packed(codes, bits, n):
    """Rows of 32 n / bits codes in n dwords."""
    per = 32 * n // bits
    wide = np.concatenate([codes, np.zeros(-len(codes) % per, codes.dtype)]).reshape(-1, per)
    ones = (wide[:, :, None] >> np.arange(bits).astype(wide.dtype) & 1).astype(np.uint8).reshape(len(wide), 32 * n)
    return np.packbits(ones, axis=1, bitorder="little").view(np.uint32)


def unpacked(dwords, bits):
    ones = np.unpackbits(np.ascontiguousarray(dwords).view(np.uint8), axis=1, bitorder="little").reshape(len(dwords), -1, bits)
    return (ones.astype(np.uint32) << np.arange(bits, dtype=np.uint32)).sum(2, dtype=np.uint32)


def same(got, want):
    return (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))


def widening(chip, name, n, m, kind):
    dtype, bits, unit = dtype_of(kind, chip.chip)
    codes = np.arange(1 << bits, dtype=unit)
    wide = codes.view(dtype).astype(np.float32)
    if n == 1:                                            # each code in each place that is read
        dwords = np.stack([codes.astype(np.uint32) | np.roll(codes, 1).astype(np.uint32) << np.uint32(bits)], 1)
        want = np.stack([wide, np.roll(wide, 1)][:m], 1)
    else:
        order = np.concatenate([np.roll(codes, i) for i in range(32)])
        dwords, want = packed(order, bits, n), order.view(dtype).astype(np.float32).reshape(-1, m)
    wrong = sum(int((~same(chip.run(f"{name}_{ovfl}", dwords).view(np.float32), want)).sum()) for ovfl in (0, 1))
    return len(codes), wrong


def inputs(wide, rng):
    finite = np.unique(wide[np.isfinite(wide)])
    base = np.concatenate([wide, ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)])
    return np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf)),
                           (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32), rng.integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32),
                           (rng.standard_normal(20000) * 2.0 ** rng.integers(-20, 20, 20000)).astype(np.float32)])


def narrowing(chip, name, n, m, kind, has_mode, rng):
    dtype, bits, unit = dtype_of(kind, chip.chip)
    wide = np.arange(1 << bits, dtype=unit).view(dtype).astype(np.float32)
    xs, wrong = inputs(wide, rng), 0
    if kind in ("fp4", *SIX):                             # they have no NaN to give
        xs = xs[~np.isnan(xs)]
    top = wide[np.isfinite(wide)].max()
    for ovfl in (0, 1):
        saturated = has_mode and ovfl
        ins = np.where(np.isinf(xs) & (bits == 16), xs, np.clip(xs, -top, top)) if saturated else xs
        want = ins.astype(dtype).view(unit).astype(np.uint32) & np.uint32((1 << bits) - 1)
        if n == 1:
            got = chip.run(f"{name}_{ovfl}", xs.view(np.uint32)[:, None])
            codes = unpacked(got, bits)[:, 0]
        else:                                             # two sources of 16 take turns
            rows = np.concatenate([xs, np.zeros(-len(xs) % 32, np.float32)]).reshape(-1, 16, 2).transpose(0, 2, 1).reshape(-1, 32)
            codes = unpacked(chip.run(f"{name}_{ovfl}", rows.view(np.uint32)), bits).reshape(-1)[:len(xs)]
        back, ref = (c.astype(unit).view(dtype).astype(np.float32) for c in (codes, want))
        bad = (codes != want) & ~(np.isnan(back) & np.isnan(ref))
        for i in np.flatnonzero(bad)[:4]:
            print(f"  {chip.chip} {name} FP16_OVFL={ovfl}: {float(xs[i]).hex()} gives {codes[i]:#x}, not {want[i]:#x}")
        wrong += int(bad.sum())
    return 2 * len(xs), wrong


def main():
    rng, bad = np.random.default_rng(1), 0
    with tempfile.TemporaryDirectory() as folder:
        for chip in (Chip(c, Path(folder)) for c in BOTH):
            for name, chips, _, n, m, kind in WIDEN:
                if chip.chip in chips:
                    count, wrong = widening(chip, name, n, m, kind)
                    print(f"{chip.chip} {name}: {count} codes, {wrong} differ")
                    bad += wrong
            for name, chips, _, n, m, kind, has_mode in NARROW:
                if chip.chip in chips:
                    count, wrong = narrowing(chip, name, n, m, kind, has_mode, rng)
                    print(f"{chip.chip} {name}: {count} conversions, {wrong} differ")
                    bad += wrong
    return 1 if bad else 0


sys.exit(main())
