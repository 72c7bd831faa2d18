; A code object with everything the loader reads: three kernels, hidden arguments, preloaded arguments, LDS, scratch,
; globals with a relocation, and source lines. Code object V5.
target triple = "amdgcn-amd-amdhsa"

@table = addrspace(1) global [4 x i32] [i32 1, i32 2, i32 3, i32 4], align 4
@table_ptr = addrspace(1) global ptr addrspace(1) @table, align 8
@lds = internal addrspace(3) global [256 x i32] poison

; dst[i] = src[i] + n + gridDim.x, i the lane of one workgroup
define amdgpu_kernel void @vector_add(ptr addrspace(1) %dst, ptr addrspace(1) %src, i32 %n) #0 !dbg !10 {
  %i = call i32 @llvm.amdgcn.workitem.id.x(), !dbg !11
  %at = getelementptr i32, ptr addrspace(1) %src, i32 %i, !dbg !11
  %v = load i32, ptr addrspace(1) %at, !dbg !11
  %implicit = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr(), !dbg !12
  %blocks = load i32, ptr addrspace(4) %implicit, !dbg !12
  %a = add i32 %v, %blocks, !dbg !12
  %b = add i32 %a, %n, !dbg !12
  %to = getelementptr i32, ptr addrspace(1) %dst, i32 %i, !dbg !13
  store i32 %b, ptr addrspace(1) %to, !dbg !13
  ret void, !dbg !14
}

; dst[i] = the lane mirrored in the workgroup, plus n, through LDS
define amdgpu_kernel void @mirror(ptr addrspace(1) inreg %dst, i32 inreg %n) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %s = getelementptr [256 x i32], ptr addrspace(3) @lds, i32 0, i32 %i
  store i32 %i, ptr addrspace(3) %s
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %m = xor i32 %i, 255
  %t = getelementptr [256 x i32], ptr addrspace(3) @lds, i32 0, i32 %m
  %v = load i32, ptr addrspace(3) %t
  %w = add i32 %v, %n
  %to = getelementptr i32, ptr addrspace(1) %dst, i32 %i
  store i32 %w, ptr addrspace(1) %to
  ret void
}

; dst[i] = i, through an indexed private array: needs scratch
define amdgpu_kernel void @private(ptr addrspace(1) %dst, i32 %n) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %private = alloca [16 x i32], align 4, addrspace(5)
  %slot = and i32 %n, 15
  %p = getelementptr [16 x i32], ptr addrspace(5) %private, i32 0, i32 %slot
  store volatile i32 %i, ptr addrspace(5) %p
  %back = load volatile i32, ptr addrspace(5) %p
  %to = getelementptr i32, ptr addrspace(1) %dst, i32 %i
  store i32 %back, ptr addrspace(1) %to
  ret void
}

declare i32 @llvm.amdgcn.workitem.id.x()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true" }

!llvm.module.flags = !{!0, !1, !4}
!llvm.dbg.cu = !{!3}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
!1 = !{i32 2, !"Debug Info Version", i32 3}
!2 = !DIFile(filename: "vector.tdsl", directory: "/nowhere")
!3 = distinct !DICompileUnit(language: DW_LANG_C11, file: !2, producer: "test", isOptimized: true, emissionKind: LineTablesOnly)
!4 = !{i32 7, !"Dwarf Version", i32 5}
!10 = distinct !DISubprogram(name: "vector_add", file: !2, line: 3, type: !20, unit: !3, spFlags: DISPFlagDefinition)
!11 = !DILocation(line: 5, column: 1, scope: !10)
!12 = !DILocation(line: 6, column: 1, scope: !10)
!13 = !DILocation(line: 7, column: 1, scope: !10)
!14 = !DILocation(line: 8, column: 1, scope: !10)
!20 = !DISubroutineType(types: !21)
!21 = !{}
