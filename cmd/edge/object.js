// An object: the service as one program (main.go), on a Redis that is the only
// authority. Two objects of one organization may run at once.
import { connect } from "cloudflare:sockets";
import wasm from "tollgate.wasm";
import "wasm_exec.js";

const idle = 60_000; // milliseconds without a request until its loops end
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

// answer has the program serve a request; done is called when all of it is sent.
function answer(program, request, done) {
	return new Promise((resolve) => {
		program.serve({
			method: request.method,
			url: request.url,
			headers: [...request.headers].flat(),
			body: request.body?.getReader(),
			aborted: (cancel) => request.signal.addEventListener("abort", cancel),
			respond: (status, list) => {
				const headers = new Headers();
				for (let i = 0; i < list.length; i += 2) headers.append(list[i], list[i + 1]);
				if (request.method === "HEAD" || bodiless.includes(status)) {
					resolve(new Response(null, { status, headers }));
					return undefined;
				}
				const length = headers.get("content-length");
				const { readable, writable } = length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
				resolve(new Response(readable, { status, headers }));
				return writable.getWriter();
			},
			ended: done,
		});
	});
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
