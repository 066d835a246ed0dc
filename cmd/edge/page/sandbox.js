// A tab's side of the sandbox: its worker, and the service worker that passes requests
// on to it.
export async function open({ progress }) {
	for (const [has, what] of [[navigator.serviceWorker, "service workers (a page over HTTPS or on localhost)"], [globalThis.DecompressionStream, "DecompressionStream"], [navigator.locks, "locks"]]) {
		if (!has) throw new Error(`This browser has no ${what}, without which the sandbox cannot run.`);
	}
	await navigator.serviceWorker.register("./service-worker.js");
	await controlled();
	navigator.storage?.persist?.(); // a browser short of space may otherwise drop it
	const sandbox = new Sandbox(progress);
	Object.assign(sandbox, await sandbox.call("open"));
	return sandbox;
}

// controlled waits until requests of this tab are passed on. A forced reload has none.
async function controlled() {
	const { active } = await navigator.serviceWorker.ready;
	if (navigator.serviceWorker.controller) return;
	await new Promise((resolve, reject) => {
		navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true });
		if (active.state === "activated") setTimeout(() => reject(new Error("Reload the page: the browser has loaded it past its service worker.")), 3000);
	});
}

class Sandbox extends EventTarget {
	constructor(progress) {
		super();
		this.base = new URL(".", location.href).href.replace(/\/$/, "");
		this.calls = new Map();
		this.last = 0;
		const url = new URL("./worker.js", import.meta.url);
		this.worker = globalThis.SharedWorker ? new SharedWorker(url, { type: "module" }).port : new Worker(url, { type: "module" });
		this.worker.onmessage = ({ data }) => {
			if (data.event === "progress") return progress?.(data.detail.loaded, data.detail.total, data.detail.step);
			if (data.event === "receiving") this.receiving = data.detail;
			if (data.event === "delivery") this.deliveries = [...(this.deliveries ?? []), data.detail].slice(-50);
			if (data.event === "restart") return location.reload();
			if (data.event) return this.dispatchEvent(new CustomEvent(data.event, { detail: data.detail }));
			const { resolve, reject } = this.calls.get(data.id);
			this.calls.delete(data.id);
			data.error === undefined ? resolve(data.value) : reject(new Error(data.error));
		};
		navigator.serviceWorker.onmessage = ({ data, ports }) => this.worker.postMessage(data, ports);
		navigator.serviceWorker.startMessages();
	}

	call(call, ...args) {
		return new Promise((resolve, reject) => {
			this.calls.set(++this.last, { resolve, reject });
			this.worker.postMessage({ id: this.last, call, args });
		});
	}

	export() {
		return this.call("export");
	}

	import(blob) {
		return this.call("import", blob);
	}

	reset() {
		return this.call("reset");
	}

	receive(status) {
		return this.call("receive", status);
	}
}
