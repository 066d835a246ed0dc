// An object: the service as one program (main.go), on a Redis that is the only
// authority. Two objects of one organization may run at once.
import { connect } from "cloudflare:sockets";
import wasm from "tollgate.wasm";
import "wasm_exec.js";

const idle = 60_000; // milliseconds without a request until its loops end
const whole = 512 * 1024; // bytes of a body that is not streamed: as much as any route takes
const bodiless = [204, 304];

export class Tollgate {
	constructor(_state, env) {
		this.env = env;
		this.requests = 0;
	}

	// start makes the program once. After a failure the next request tries again.
	start() {
		this.program ??= new Promise((ready, failed) => {
			const go = new Go();
			const host = {
				setting: (name) => this.env[name] ?? "",
				dial: (address, encrypted) => connect(address, { secureTransport: encrypted ? "on" : "off" }),
				ready: (serve, sleep) => ready({ serve, sleep }),
				failed: (why) => failed(new Error(why)),
			};
			WebAssembly.instantiate(wasm, go.importObject).then((instance) => {
				globalThis.tollgate = host; // the program takes it before run returns
				const ended = go.run(instance);
				delete globalThis.tollgate;
				return ended;
			}).then(() => failed(new Error("the program has ended")), failed).finally(() => (this.program = undefined));
		});
		return this.program;
	}

	async fetch(request) {
		let program;
		try {
			program = await this.start();
		} catch (error) {
			console.error(String(error));
			return unavailable();
		}
		clearTimeout(this.sleeping);
		this.requests++;
		try {
			return await answer(program, request, () => this.rest(program));
		} catch (error) { // the program has ended under it
			console.error(String(error));
			return unavailable();
		}
	}

	// rest ends the loops when nobody has asked for a while.
	rest(program) {
		if (--this.requests === 0) this.sleeping = setTimeout(() => program.sleep(), idle);
	}
}

// answer has the program serve a request; done is called when it is through with it.
async function answer(program, request, done) {
	const headers = [...request.headers].map(([name, value]) => `${name}\n${value}\n`).join("");
	const length = request.headers.get("content-length");
	const body = request.body && (length !== null && Number(length) <= whole ? new Uint8Array(await request.arrayBuffer()) : request.body.getReader());
	return new Promise((resolve, reject) => {
		let cancel; // an answer may come before serve returns
		const ended = () => {
			if (cancel) request.signal.removeEventListener("abort", cancel);
			cancel = null;
			done();
		};
		const gone = program.serve(request.method, request.url, headers, body, {
			whole(status, head, bytes) {
				ended();
				const none = request.method === "HEAD" || bodiless.includes(status);
				resolve(new Response(none ? null : bytes, { status, headers: headersOf(head) }));
			},
			begin(status, head) {
				const headers = headersOf(head);
				const length = headers.get("content-length");
				const { readable, writable } = length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
				const writer = writable.getWriter();
				writer.closed.then(ended, ended);
				resolve(new Response(request.method === "HEAD" ? null : readable, { status, headers }));
				return writer;
			},
			broken() {
				ended();
				reject(new Error("the answer ends early"));
			},
		});
		if (cancel === undefined) request.signal.addEventListener("abort", (cancel = gone));
	});
}

// headersOf reads names and values, each on a line.
function headersOf(head) {
	const headers = new Headers();
	const lines = head.split("\n");
	for (let i = 0; i + 1 < lines.length; i += 2) headers.append(lines[i], lines[i + 1]);
	return headers;
}

function unavailable() {
	const problem = {
		type: "urn:tollgate:error:store_unavailable", title: "Store unavailable", status: 503, code: "store_unavailable",
		message: "The service cannot start at the moment. Try again.", request_id: `req_${crypto.randomUUID()}`,
	};
	return new Response(JSON.stringify(problem), {
		status: 503, headers: { "content-type": "application/problem+json", "cache-control": "no-store", "retry-after": "1" },
	});
}
