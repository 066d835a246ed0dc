// The Worker as tests run it: they move the clock of its programs, and look into
// them. It is in front of worker.js, and never shipped.
import "./wasm_exec.js";
import worker, { Tollgate as Shipped } from "./worker.js";

const clock = {
	wall: undefined, // the time of day in ms, where the test moves it
	ahead: 0, // of the monotonic clock, in ms
	still: false, // it moves with I/O alone, as on Cloudflare
	seen: 0, // when there was any
};
const objects = [], programs = [];
let resumed = 0;

const real = () => performance.timeOrigin + performance.now();
const now = () => clock.still ? clock.seen : real();

function arrives(value) {
	clock.seen = Math.ceil(real()); // never back
	return value;
}

globalThis.Go = class extends Go {
	constructor() {
		super();
		Object.assign(this.importObject.gojs, {
			"runtime.nanotime1": (sp) => {
				this.mem.setBigInt64((sp >>> 0) + 8, BigInt(Math.floor((now() + clock.ahead) * 1e6)), true);
			},
			"runtime.walltime": (sp) => {
				const ms = clock.wall ?? Math.floor(now() + clock.ahead);
				this.mem.setBigInt64((sp >>> 0) + 8, BigInt(Math.floor(ms / 1000)), true);
				this.mem.setInt32((sp >>> 0) + 16, ms % 1000 * 1e6, true);
			},
		});
	}

	run(instance) {
		programs.push(instance);
		return super.run(instance);
	}

	_resume() {
		resumed++;
		super._resume();
	}
};

// I/O is what a socket or a client sends, and a timer. A Worker has no timers before
// its first request, but a program that starts is in one.
const { setTimeout } = globalThis, { read } = ReadableStreamDefaultReader.prototype;
globalThis.setTimeout = (f, ms, ...args) => setTimeout(() => f(arrives(), ...args), ms);
ReadableStreamDefaultReader.prototype.read = function () { return read.call(this).then(arrives); };

export class Tollgate extends Shipped {
	constructor(state, env) {
		super(state, env);
		objects.push(this);
	}
}

export default {
	async fetch(request, env, context) {
		arrives();
		const url = new URL(request.url);
		if (url.pathname !== "/harness") return worker.fetch(request, env, context);
		if (request.method === "POST") Object.assign(clock, await request.json());
		return Response.json({
			memory: programs.map(({ exports }) => exports.mem.buffer.byteLength),
			requests: objects.reduce((sum, { program }) => sum + program.requests.size, 0),
			resumed,
		});
	},
};
