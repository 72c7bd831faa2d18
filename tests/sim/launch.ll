; Kernels for what a launch adds to single instructions (sim_exec_test.c): ids, waves of a workgroup, barriers, atomics
; between workgroups, flat pointers, calls, and the ways to fail.
target triple = "amdgcn-amd-amdhsa"

@lds = internal addrspace(3) global [256 x i32] poison

; out[linear id] = x | y << 4 | z << 8 of the workgroup | x << 12 | y << 16 | z << 20 of the item; block (8, 4, 4), grid (2, 3, 2)
define amdgpu_kernel void @ids(ptr addrspace(1) %out) #0 {
  %gx = call i32 @llvm.amdgcn.workgroup.id.x()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %x = call i32 @llvm.amdgcn.workitem.id.x()
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  %z = call i32 @llvm.amdgcn.workitem.id.z()
  %t1 = mul i32 %z, 4
  %t2 = add i32 %t1, %y
  %t3 = mul i32 %t2, 8
  %item = add i32 %t3, %x
  %g1 = mul i32 %gz, 3
  %g2 = add i32 %g1, %gy
  %g3 = mul i32 %g2, 2
  %group = add i32 %g3, %gx
  %g4 = mul i32 %group, 128
  %at = add i32 %g4, %item
  %a1 = shl i32 %gy, 4
  %a2 = shl i32 %gz, 8
  %a3 = shl i32 %x, 12
  %a4 = shl i32 %y, 16
  %a5 = shl i32 %z, 20
  %o1 = or i32 %gx, %a1
  %o2 = or i32 %o1, %a2
  %o3 = or i32 %o2, %a3
  %o4 = or i32 %o3, %a4
  %o5 = or i32 %o4, %a5
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %o5, ptr addrspace(1) %p
  ret void
}

; out[0] += 1 by every item; out[1] = the largest item number
define amdgpu_kernel void @count(ptr addrspace(1) %out) #0 {
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %g1 = mul i32 %g, 256
  %n = add i32 %g1, %i
  %old = atomicrmw add ptr addrspace(1) %out, i32 1 monotonic
  %p = getelementptr i32, ptr addrspace(1) %out, i32 1
  %m = atomicrmw umax ptr addrspace(1) %p, i32 %n monotonic
  ret void
}

; out[i] = sum over four steps of LDS values of other waves: every step needs its barriers
define amdgpu_kernel void @waves(ptr addrspace(1) %out) #0 {
entry:
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %mine = getelementptr [256 x i32], ptr addrspace(3) @lds, i32 0, i32 %i
  br label %loop
loop:
  %step = phi i32 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i32 [ %i, %entry ], [ %sum2, %loop ]
  store i32 %sum, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %j1 = add i32 %i, 64
  %j = and i32 %j1, 255
  %other = getelementptr [256 x i32], ptr addrspace(3) @lds, i32 0, i32 %j
  %v = load i32, ptr addrspace(3) %other
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %sum2 = add i32 %sum, %v
  %next = add i32 %step, 1
  %more = icmp ult i32 %next, 4
  br i1 %more, label %loop, label %done
done:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %sum2, ptr addrspace(1) %p
  ret void
}

; half of the waves leave before the barrier
define amdgpu_kernel void @early(ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %first = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %i)
  %low = icmp ult i32 %first, 128
  br i1 %low, label %end, label %work
work:
  call void @llvm.amdgcn.s.barrier()
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 7, ptr addrspace(1) %p
  br label %end
end:
  ret void
}

; flat pointers to LDS, scratch and memory; a call through the stack pointer's ABI
define amdgpu_kernel void @flat(ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %slot = alloca [4 x i32], align 4, addrspace(5)
  %s = and i32 %i, 3
  %ps = getelementptr [4 x i32], ptr addrspace(5) %slot, i32 0, i32 %s
  %fs = addrspacecast ptr addrspace(5) %ps to ptr
  %l = getelementptr [256 x i32], ptr addrspace(3) @lds, i32 0, i32 %i
  %fl = addrspacecast ptr addrspace(3) %l to ptr
  call void @put(ptr %fs, i32 100)
  call void @put(ptr %fl, i32 %i)
  %a = load volatile i32, ptr addrspace(5) %ps
  %b = load volatile i32, ptr addrspace(3) %l
  %c = add i32 %a, %b
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %fp = addrspacecast ptr addrspace(1) %p to ptr
  call void @put(ptr %fp, i32 %c)
  ret void
}

define void @put(ptr %p, i32 %v) noinline {
  store volatile i32 %v, ptr %p
  ret void
}

; an element of a register vector chosen at run time, read and written
define amdgpu_kernel void @index(ptr addrspace(1) %out, i32 %n) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %row = getelementptr <16 x i32>, ptr addrspace(1) %out, i32 %i
  %v = load <16 x i32>, ptr addrspace(1) %row
  %e = extractelement <16 x i32> %v, i32 %n
  %m = xor i32 %n, 9
  %e2 = add i32 %e, 1000
  %w = insertelement <16 x i32> %v, i32 %e2, i32 %m
  %l = and i32 %i, 15
  %d = extractelement <16 x i32> %w, i32 %l
  %w2 = insertelement <16 x i32> %w, i32 %d, i32 0
  store <16 x i32> %w2, ptr addrspace(1) %row
  ret void
}

; one element past the end for item 255
define amdgpu_kernel void @beyond(ptr addrspace(1) %out) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %n = add i32 %i, 1
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %n
  store i32 %i, ptr addrspace(1) %p
  ret void
}

define amdgpu_kernel void @endless(ptr addrspace(1) %out) #0 {
entry:
  br label %loop
loop:
  %v = load volatile i32, ptr addrspace(1) %out
  %c = icmp eq i32 %v, 12345
  br i1 %c, label %done, label %loop
done:
  ret void
}

declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.amdgcn.s.barrier()
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" "uniform-work-group-size"="true" }
