// An assertion is a client's signed word for who it is (RFC 7523). It buys one token.

const lifetime = 60; // seconds
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const encoder = new TextEncoder();

// sign makes one for an audience, with the text of a private P-256 JWK.
export async function sign(jwk, client, audience) {
	const { kty, crv, x, y, d, kid } = JSON.parse(jwk);
	if (crv !== "P-256" || !d) throw new Error("The client's key is not a private P-256 key.");
	const key = await crypto.subtle.importKey("jwk", { kty, crv, x, y, d }, algorithm, false, ["sign"]);
	const now = Math.floor(Date.now() / 1000);
	const header = { alg: "ES256", kid, typ: "client-authentication+jwt" };
	const claims = { iss: client, sub: client, aud: audience, exp: now + lifetime, iat: now, jti: crypto.randomUUID() };
	const signed = [header, claims].map((part) => base64url(encoder.encode(JSON.stringify(part)))).join(".");
	const signature = await crypto.subtle.sign(algorithm, key, encoder.encode(signed));
	return `${signed}.${base64url(new Uint8Array(signature))}`;
}

function base64url(bytes) {
	return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
