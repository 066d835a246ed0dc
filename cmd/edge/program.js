// A program: a service in WebAssembly (package host), and what it asks of its host.
import "./wasm_exec.js";

const whole = 512 * 1024; // bytes of a body that is not streamed: as much as any route takes
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Program {
	// module is compiled; of the services it asks; after idle seconds without a
	// request its loops end.
	constructor(module, { idle, ...services }) {
		Object.assign(this, { module, services, idle });
		this.last = 0; // the number of a request
		this.requests = new Map(); // under way, by number
	}

	// start makes the program once. After a failure the next request tries again.
	start() {
		this.program ??= new Promise((ready, failed) => {
			const go = new Go();
			const host = {
				...this.services,
				ready: (serve, cancel, sleep) => ready({ serve, cancel, sleep }),
				failed: (why) => failed(new Error(why)),
				whole: (number, status, answer, size) => {
					const body = this.bodiless(number, status) ? null : answer.subarray(size);
					this.requests.get(number).resolve(new Response(body, { status, headers: headersOf(answer.subarray(0, size)) }));
					this.end(number);
				},
				begin: (number, status, head) => {
					const headers = headersOf(head);
					const length = headers.get("content-length");
					const { readable, writable } = streamOf(length);
					const writer = writable.getWriter();
					const end = () => this.end(number);
					writer.closed.then(end, end);
					this.requests.get(number).resolve(new Response(this.bodiless(number, status) ? null : readable, { status, headers }));
					return writer;
				},
				broken: (number) => {
					this.requests.get(number).reject(new Error("the answer ends early"));
					this.end(number);
				},
			};
			WebAssembly.instantiate(this.module, go.importObject).then((instance) => {
				globalThis.tollgate = host; // the program takes it before run returns
				const ended = go.run(instance);
				delete globalThis.tollgate;
				return ended;
			}).then(() => this.ended(failed, new Error("the program has ended")), (error) => this.ended(failed, error));
		});
		return this.program;
	}

	// ended refuses what waits for a program that is no more.
	ended(failed, error) {
		this.program = undefined;
		clearTimeout(this.sleeping);
		failed(error);
		for (const { reject } of this.requests.values()) reject(error);
		this.requests.clear();
	}

	async fetch(request) {
		try {
			return await this.serve(await this.start(), request);
		} catch (error) { // it cannot start, or has ended
			console.error(String(error));
			return unavailable();
		}
	}

	async serve(program, request) {
		let head = `${request.method}\n${request.url}\n`;
		for (const [name, value] of request.headers) head += `${name}\n${value}\n`;
		head = encoder.encode(head);
		let packed = head, reader;
		const length = request.headers.get("content-length");
		if (request.body && (length === null || Number(length) > whole)) {
			reader = request.body.getReader();
		} else if (request.body) {
			const body = new Uint8Array(await request.arrayBuffer());
			packed = new Uint8Array(head.length + body.length);
			packed.set(head);
			packed.set(body, head.length);
		}
		return new Promise((resolve, reject) => {
			const number = ++this.last;
			const cancel = () => program.cancel(number);
			const ended = () => request.signal.removeEventListener("abort", cancel);
			clearTimeout(this.sleeping);
			this.requests.set(number, { resolve, reject, ended, head: request.method === "HEAD", program });
			request.signal.addEventListener("abort", cancel);
			program.serve(number, packed, head.length, reader);
		});
	}

	bodiless(number, status) {
		return this.requests.get(number).head || status === 204 || status === 304;
	}

	// end forgets a request. The loops end when nobody has asked for a while.
	end(number) {
		const { ended, program } = this.requests.get(number) ?? {};
		if (!ended) return; // it has been refused
		ended();
		this.requests.delete(number);
		if (this.requests.size === 0) this.sleeping = setTimeout(() => program.sleep(), 1000 * this.idle);
	}
}

// streamOf is a way for an answer. An edge runtime has a faster one, and one that
// says how long the answer is.
function streamOf(length) {
	if (!globalThis.IdentityTransformStream) return new TransformStream();
	return length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
}

// headersOf reads names and values, each on a line.
function headersOf(head) {
	const lines = decoder.decode(head).split("\n");
	const headers = [];
	for (let i = 0; i + 1 < lines.length; i += 2) headers.push([lines[i], lines[i + 1]]);
	return new Headers(headers);
}

function unavailable() {
	const problem = {
		type: "urn:tollgate:error:store_unavailable", title: "Store unavailable", status: 503, code: "store_unavailable",
		message: "The service cannot start at the moment. Try again.", request_id: `req_${crypto.randomUUID().replaceAll("-", "").slice(0, 26)}`,
	};
	return new Response(JSON.stringify(problem), {
		status: 503,
		headers: {
			"content-type": "application/problem+json", "cache-control": "no-store", "x-content-type-options": "nosniff",
			"retry-after": "1", "request-id": problem.request_id,
		},
	});
}
