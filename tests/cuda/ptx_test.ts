/**
 * Machines without NVRTC: the file of precompiled kernels, replaced by the emulator's, since it
 * runs no PTX; and the division and the angles that do not use libm, compared with libm.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Kernel, pack, split } from "../../scripts/generate/ptx.ts";
import { root, runZig } from "../../scripts/tools.ts";
import { prebuiltFamilies } from "../../src/backend/cuda/families.ts";
import { onHardware } from "./support/device.ts";
import { emulatorCopy, emulatorFolder, whyNoEmulator } from "../emulator/build.ts";
import { findZig, moduleAt, runApart, when } from "../native/support.ts";

const reason = whyNoEmulator() ?? (onHardware ? "a real device is tested" : undefined);
const ALL = ["--allow-all"];

/** The families of these kernels. */
const FAMILIES = ["copy_u8_contiguous", "add_f32_contiguous", "sum_f32_f32_along"];

/** The output of the emulator's NVRTC for a family, one image for all of its kernels. */
function kernelsOf(name: string, folder: string): Kernel[] {
  const cache = join(folder, name);
  mkdirSync(cache, { recursive: true });
  runApart(
    `import { findCuda } from ${moduleAt("src/backend/cuda.ts")};
    import { CudaDevice } from ${moduleAt("src/backend/cuda/device.ts")};
    import { prebuiltFamilies } from ${moduleAt("src/backend/cuda/families.ts")};
    const { source, names } = prebuiltFamilies().find(({ names }) => names.includes("${name}"));
    new CudaDevice(findCuda().shim, 0).load(source, names);`,
    { ROWMAJOR_CUDA_LIB_DIR: emulatorFolder(), ROWMAJOR_CACHE: cache },
    ALL,
  );
  // See the head of a file in shim/cuda/modules/cache.c: the image comes last.
  const file = readFileSync(join(cache, readdirSync(cache)[0]!));
  const image = file.subarray(file.length - Number(file.readBigUInt64LE(16)));
  const { names } = prebuiltFamilies().find(({ names }) => names.includes(name))!;
  const text = image.toString("latin1");
  return names.map((name) => ({ name, entry: name, text }));
}

/** The output of a program on a device without NVRTC, with this file of kernels. */
function withoutNvrtc(folder: string, file: string, program: string): string {
  const env = {
    ROWMAJOR_CUDA_LIB_DIR: folder,
    ROWMAJOR_PTX: file,
    PATH: "",
    VIRTUAL_ENV: "",
    CONDA_PREFIX: "",
    CUDA_HOME: "",
    CUDA_PATH: "",
    HOME: folder,
  };
  return runApart(
    `import { arange, tensor } from ${moduleAt("mod.ts")};
    const told = (run) => { try { return run().toArray(); } catch (e) { return String(e); } };
    const x = tensor([[1, 2, 3], [4, 5, 6]]).to("cuda");
    console.log(JSON.stringify(${program}));`,
    env,
    ALL,
  ).trim();
}

if (reason !== undefined) test(`kernels that come compiled (${reason})`, { skip: true }, () => {});
else {
  test(...when(
    {},
    "without NVRTC ops run by the kernels of a file, and say which are not there",
    (folder) => {
      const bytes = pack(FAMILIES.flatMap((name) => kernelsOf(name, folder)));
      const file = join(folder, "kernels.bin");
      writeFileSync(file, bytes);
      const bare = join(folder, "bare");
      mkdirSync(bare);
      emulatorCopy(bare, { files: ["libnvrtc.so.13"] });
      const ops = `[
        told(() => x.add(x)),
        told(() => x.T.add(tensor([10, 20], { dtype: "int16" }).to("cuda"))),
        told(() => x.sum(0)),
        told(() => arange(100000, { dtype: "float32" }).to("cuda").sum()),
        told(() => tensor([100, 100], { dtype: "int8" }).to("cuda").sum(null, { dtype: "int8" })),
        told(() => x.exp()),
      ]`;
      const [sum, mixed, columns, long, narrow, exp] = JSON.parse(withoutNvrtc(bare, file, ops));
      assertEquals(sum, [[2, 4, 6], [8, 10, 12]]);
      assertEquals(mixed, [[11, 24], [12, 25], [13, 26]]);
      assertEquals(columns, [5, 7, 9]);
      assertEquals(long, Math.fround(4999950000));
      assertEquals(narrow, -56);
      assertStringIncludes(exp, "kernel exp_f32_strided does not come compiled");
      assertStringIncludes(exp, "NVRTC");
      const add = "told(() => x.add(x))";
      assertStringIncludes(withoutNvrtc(bare, join(folder, "none"), add), "cannot be read");
      const damaged = Uint8Array.from(bytes);
      damaged[bytes.length >> 1]! ^= 1;
      writeFileSync(file, damaged);
      assertStringIncludes(withoutNvrtc(bare, file, add), "is damaged");
      const [, ...rest] = new TextDecoder("latin1").decode(bytes).split(" ");
      const write = (change: number, by: number): void => {
        const fields = rest.map((field, k) => k === change ? String(Number(field) ^ by) : field);
        writeFileSync(file, `rowmajor-ptx ${fields.join(" ")}`, "latin1");
      };
      write(0, 1);
      assertStringIncludes(withoutNvrtc(bare, file, add), "is of another version");
      // The bytes are right, but not as many as they decompress to.
      write(2, 1);
      assertStringIncludes(withoutNvrtc(bare, file, add), "is damaged");
      writeFileSync(file, "something else");
      assertStringIncludes(withoutNvrtc(bare, file, add), "does not hold kernels");
    },
  ));
}

test("a kernel takes along the functions and variables that it uses, and no others", () => {
  const kernels = split(`.version 6.4
.target sm_75
.address_size 64
.func (.param .b64 func_retval0) _Z3far
(
	.param .b64 _Z3far_param_0
)
;
.const .align 8 .b8 _Zdigits[2] = {1, 2};
.shared .align 4 .b8 _Zroom[8];
.visible .entry one( // -- Begin function one
	.param .u64 one_param_0
)
{
	ld.param.u64 %rd1, [one_param_0];
$L__BB0_1:
	call (retval0), _Z3far, (param0);
}
.visible .entry two(
	.param .u64 two_param_0
)
{
$L__BB1_1:
	st.shared.b32 [_Zroom], 0;
}
.func (.param .b64 func_retval0) _Z3far(
	.param .b64 _Z3far_param_0
)
{
	mov.u64 %rd1, _Zdigits;
}
`);
  const head = ".version 6.4\n.target sm_75\n.address_size 64\n";
  assertEquals(kernels.map(({ name }) => name), ["one", "two"]);
  const [one, two] = kernels.map(({ text }) => text);
  assertEquals(
    one,
    `${head}.func (.param .b64 func_retval0) s1\n(\n.param .b64 p0\n)\n;\n` +
      ".const .align 8 .b8 s2[2] = {1,2};\n.visible .entry k(\n.param .u64 p0\n)\n{\n" +
      "ld.param.u64 %rd1,[p0];\n$1:\ncall (retval0),s1,(param0);\n}\n" +
      ".func (.param .b64 func_retval0) s1(\n.param .b64 p0\n)\n{\nmov.u64 %rd1,s2;\n}\n",
  );
  assertEquals(
    two,
    `${head}.shared .align 4 .b8 s1[8];\n.visible .entry k(\n.param .u64 p0\n)\n{\n$1:\n` +
      "st.shared.b32 [s1],0;\n}\n",
  );
});

const zig = findZig();
test(
  ...when({ zig: zig !== undefined }, "rests of divisions and huge angles are libm's", (folder) => {
    const program = join(folder, "payne_hanek");
    const from = join(root, "tests", "native", "c", "payne_hanek.c");
    const flags = ["-O2", "-ffp-contract=off", "-I", join(root, "shim", "cuda", "kernels")];
    runZig(["cc", ...flags, from, "-o", program, "-lm"]);
    assertEquals(
      execFileSync(program, { encoding: "utf8" }),
      "rests differ: 0\nangles differ: 0\n",
    );
  }),
);
