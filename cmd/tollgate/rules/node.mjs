// Runs a rule's golden cases in V8, as the engine runs them: on new instances
// and, in two orders, on used ones. Reads {module, fuel, requests} from standard
// input, the binary ones in base64, and writes a list of {reply, fuel} for each
// way.
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";

// A call may hold more on the stack than V8 has by default, and its own limit
// would end what the engine runs. Only a thread's stack can be made larger.
const stackSizeMb = 64;

async function main() {
  const { parentPort, workerData } = await import("node:worker_threads");
  const { module, fuel, requests } = JSON.parse(workerData);
  const compiled = new WebAssembly.Module(Buffer.from(module, "base64"));
  const cases = requests.map((text) => Buffer.from(text, "base64"));
  const windowSize = 4096;

  function instantiate() {
    const { exports } = new WebAssembly.Instance(compiled, {});
    exports["tollgate.fuel"].value = BigInt(fuel);
    return { exports, at: exports.tg_buf() >>> 0 };
  }

  function run(instance, request) {
    const { exports, at } = instance;
    new Uint8Array(exports.memory.buffer, at, windowSize).set(request);
    exports["tollgate.fuel"].value = BigInt(fuel);
    let length = 0;
    let failed = false;
    try {
      length = exports.quote(request.length);
    } catch (trap) {
      if (!(trap instanceof WebAssembly.RuntimeError || trap instanceof RangeError)) throw trap;
      failed = true;
    }
    const used = BigInt(fuel) - exports["tollgate.fuel"].value;
    const there = !failed && length > 0 && length <= windowSize;
    const reply = there ? Buffer.from(exports.memory.buffer, at, length).toString("base64") : "";
    return { outcome: { reply, fuel: Number(used) }, failed };
  }

  const fresh = cases.map((request) => run(instantiate(), request).outcome);
  function used(order) {
    const outcomes = [];
    let instance = instantiate();
    for (const i of order) {
      const { outcome, failed } = run(instance, cases[i]);
      outcomes[i] = outcome;
      if (failed) instance = instantiate();
    }
    return outcomes;
  }
  const order = [...cases.keys()];
  const ways = { fresh, used: used(order), backwards: used([...order].reverse()) };
  parentPort.postMessage(JSON.stringify({ version: process.version, ways }));
}

const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(`await (${main})()`)}`), {
  workerData: readFileSync(0, "utf8"),
  resourceLimits: { stackSizeMb },
});
worker.on("message", (answer) => process.stdout.write(answer));
