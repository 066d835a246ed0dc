// The service worker serves the page's files, so that it is there without a network,
// and passes requests to the API on to a tab, whose worker answers them.
const version = "0"; // of the files, as they are built
const files = ["./", "page.css", "page.js", "curl.js", "assertion.js", "sandbox.js", "worker.js", "state.js", "program.js", "wasm_exec.js"];
const cache = `tollgate ${registration.scope} ${version}`;
const api = ["v1/", "oauth2/"].map((path) => new URL(path, registration.scope).href);

addEventListener("install", (event) => {
	event.waitUntil(caches.open(cache).then((c) => c.addAll(files.map((f) => new Request(new URL(f, registration.scope), { cache: "no-cache" })))));
});

addEventListener("activate", (event) => {
	event.waitUntil((async () => {
		for (const name of await caches.keys()) {
			if (name.startsWith(`tollgate ${registration.scope} `) && name !== cache) await caches.delete(name);
		}
		await clients.claim();
	})());
});

addEventListener("fetch", (event) => {
	const { request } = event;
	if (api.some((prefix) => request.url.startsWith(prefix))) {
		event.respondWith(pass(event));
	} else if (request.method === "GET" && request.url.startsWith(registration.scope)) {
		event.respondWith(serve(event));
	}
});

// serve gives a file of the build. The module is kept while it is loaded for the first
// time: it is large, and a tab shows how it arrives.
async function serve(event) {
	const url = new URL(event.request.url);
	url.search = url.hash = "";
	const kept = await (await caches.open(cache)).match(url.href);
	if (kept) return kept;
	const answer = await fetch(event.request);
	if (answer.ok && url.href === new URL("tollgate.wasm.gz", registration.scope).href) {
		const copy = answer.clone();
		event.waitUntil(caches.open(cache).then((c) => c.put(url.href, copy)));
	}
	return answer;
}

// pass has a tab's worker answer.
async function pass(event) {
	const { request } = event;
	const tab = (await clients.get(event.clientId)) ?? (await clients.matchAll({ type: "window" }))[0];
	if (!tab) return new Response("no tab has the sandbox open\n", { status: 503 });
	const body = request.method === "GET" || request.method === "HEAD" ? undefined : await request.arrayBuffer();
	return new Promise((resolve) => {
		const { port1, port2 } = new MessageChannel();
		port1.onmessage = ({ data }) => {
			const bodiless = [204, 205, 304].includes(data.status);
			resolve(data.error ? Response.error() : new Response(bodiless ? null : data.body, { status: data.status, headers: data.headers }));
			port1.close();
		};
		request.signal.addEventListener("abort", () => port1.postMessage("gone"));
		tab.postMessage({ request: { method: request.method, url: request.url, headers: [...request.headers], body } }, [port2]);
	});
}
