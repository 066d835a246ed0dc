// The Worker: it sends each request to the object of its organization. Which one
// that is, an unverified token may say: it only routes.
export { Tollgate } from "./object.js";

export default {
	async fetch(request, env) {
		const url = new URL(request.url);
		if (env.TOLLGATE_PUBLISH_URL && request.method === "POST" && url.pathname === "/v1/rules") {
			return fetch(new URL(url.pathname, env.TOLLGATE_PUBLISH_URL), request);
		}
		const objects = env.TOLLGATE_OBJECTS;
		return objects.get(objects.idFromName(shard(await tenant(request, url), env.TOLLGATE_EDGE_SHARDS))).fetch(request);
	},
};

// shard is the name of the object for a tenant.
function shard(tenant, shards) {
	if (shards === "organization") return tenant;
	let hash = 2166136261; // FNV-1a
	for (const c of tenant) hash = Math.imul(hash ^ c.charCodeAt(0), 16777619) >>> 0;
	return tenant === "" ? "0" : String(hash % (Number(shards) || 1));
}

// tenant is the organization of the token, the client that asks for, revokes or introspects one, or nobody.
async function tenant(request, url) {
	const token = /^(?:bearer|dpop) +[^.]*\.([^.]*)\./i.exec(request.headers.get("authorization") ?? "");
	if (token) return claim(token[1], "org");
	if (request.method !== "POST" || !["/oauth2/token", "/oauth2/revoke", "/oauth2/introspect"].includes(url.pathname)) return "";
	if (Number(request.headers.get("content-length") ?? Infinity) > 16384) return "";
	const form = new URLSearchParams(await request.clone().text());
	return claim((form.get("client_assertion") ?? form.get("assertion") ?? "").split(".")[1] ?? "", "iss");
}

function claim(payload, name) {
	try {
		const value = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/")))[name];
		return typeof value === "string" ? value.slice(0, 64) : "";
	} catch {
		return "";
	}
}
