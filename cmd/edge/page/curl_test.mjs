// Run with node --test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sign } from "./assertion.js";
import { parse } from "./curl.js";

const base = "https://pages.example/sandbox";
const variables = { TOLLGATE_URL: base, TOLLGATE_TOKEN: "a.b.c", PAYMENT: "pay_1", SPACED: "two words", HERE: '"$x' };
const json = ["Content-Type", "application/json"], accept = ["Accept", "application/json"];
const form = ["Content-Type", "application/x-www-form-urlencoded"];

const understood = {
	"a read": ["curl $TOLLGATE_URL/v1/events", "GET", "/v1/events"],
	"a variable in braces, beside letters": ['curl "${TOLLGATE_URL}/v1/payments/${PAYMENT}x"', "GET", "/v1/payments/pay_1x"],
	"several lines, and blank ones around": ['\n curl \\\n  -H "Authorization: Bearer $TOLLGATE_TOKEN" \\\n\t"$TOLLGATE_URL/v1/events?limit=1&wait=20"\n\n', "GET", "/v1/events?limit=1&wait=20", [["Authorization", "Bearer a.b.c"]]],
	"flags that only change what is shown": ["curl -s -S -i -v -sSiv --silent --show-error --include --verbose $TOLLGATE_URL/v1/events", "GET", "/v1/events"],
	"a method, in both spellings": ["curl --request DELETE --url $TOLLGATE_URL/v1/exports/exp_1", "DELETE", "/v1/exports/exp_1"],
	"values at the option, behind flags": ["curl -sXPATCH -HA:b $TOLLGATE_URL/v1/x", "PATCH", "/v1/x", [["A", "b"]]],
	"a POST without a body": ["curl -X POST $TOLLGATE_URL/v1/x", "POST", "/v1/x"],
	"a form": ["curl $TOLLGATE_URL/oauth2/token -d a=1 --data b=2 -dc=3", "POST", "/oauth2/token", [form], "a=1&b=2&c=3"],
	"JSON as data": [`curl $TOLLGATE_URL/v1/quotes -H 'content-type: application/json' -d '{"a":"$1 \\n"}'`, "POST", "/v1/quotes", [["content-type", "application/json"]], '{"a":"$1 \\n"}'],
	"JSON": [`curl $TOLLGATE_URL/v1/quotes --json '{"a":' --json '1}'`, "POST", "/v1/quotes", [accept, json], '{"a":1}'],
	"JSON with a media type of its own": [`curl $TOLLGATE_URL/v1/quotes --json {} -H "Content-Type: text/plain" -H accept:*/*`, "POST", "/v1/quotes", [["Content-Type", "text/plain"], ["accept", "*/*"]], "{}"],
	"raw data with an @": ["curl $TOLLGATE_URL/v1/x --data-raw @a", "POST", "/v1/x", [form], "@a"],
	"encoded data": [`curl $TOLLGATE_URL/v1/x --data-urlencode "a=b c&d='e'" --data-urlencode =é --data-urlencode '!*'`, "POST", "/v1/x", [form], "a=b%20c%26d%3D%27e%27&%C3%A9&%21%2A"],
	"a query of data": ["curl -G $TOLLGATE_URL/v1/payments -d payee=shop.example --data-urlencode 'reference=a b'", "GET", "/v1/payments?payee=shop.example&reference=a%20b"],
	"a query behind another": ["curl -G $TOLLGATE_URL/v1/x?a=1 -d b=2", "GET", "/v1/x?a=1&b=2"],
	"no body with -G and --json": ["curl -G $TOLLGATE_URL/v1/x --json a=1", "GET", "/v1/x?a=1", [accept, json]],
	"escapes in double quotes": [`curl $TOLLGATE_URL/v1/x -d "{\\"a\\":\\"\\$\\n\\\\\\""`, "POST", "/v1/x", [form], '{"a":"$\\n\\"'],
	"an escape outside of quotes": ["curl $TOLLGATE_URL/v1/x -d a\\ b\\&c", "POST", "/v1/x", [form], "a b&c"],
	"a line that goes on in double quotes": ['curl $TOLLGATE_URL/v1/x -d "a\\\nb\nc"', "POST", "/v1/x", [form], "ab\nc"],
	"quotes within a word": [`curl $TOLLGATE_URL/v1/x -d a'b'"c"''`, "POST", "/v1/x", [form], "abc"],
	"an empty body": ["curl $TOLLGATE_URL/v1/x -d ''", "POST", "/v1/x", [form], ""],
	"a $ that is none": ['curl $TOLLGATE_URL/v1/x -d "5$ $. $"', "POST", "/v1/x", [form], "5$ $. $"],
	"a value is not read again": ["curl $TOLLGATE_URL/v1/x -d $HERE -d $SPACED", "POST", "/v1/x", [form], '"$x&two words'],
};

for (const [name, [command, method, path, headers = [], body]] of Object.entries(understood)) {
	test(`understood: ${name}`, () => {
		assert.deepEqual(parse(command, variables, base), { url: base + path, method, headers, body });
	});
}

const refused = {
	"nothing": ["", /begins with curl.*Understood are/],
	"another program": ["wget $TOLLGATE_URL/v1/x", /begins with curl/],
	"no URL": ["curl -s", /no URL/],
	"two URLs": ["curl $TOLLGATE_URL/v1/x $TOLLGATE_URL/v1/y", /second URL.*\/v1\/y/],
	"another host": ["curl https://other.example/sandbox/v1/x", /Only the sandbox.*other\.example/],
	"a host that begins alike": ["curl ${TOLLGATE_URL}s/v1/x", /Only the sandbox/],
	"a path above": ["curl $TOLLGATE_URL/../other", /Only the sandbox/],
	"a path above, encoded": ["curl $TOLLGATE_URL/%2e%2e/other", /Only the sandbox/],
	"a user": ["curl https://pages.example@other.example/sandbox/v1", /Only the sandbox/],
	"no scheme": ["curl pages.example/sandbox/v1/x", /Only the sandbox/],
	"a pipe": ["curl $TOLLGATE_URL/v1/x | jq .", /^\| is more of a shell.*Understood are/],
	"a second command": ["curl $TOLLGATE_URL/v1/x; rm x", /^; is more/],
	"an & without quotes": ["curl $TOLLGATE_URL/v1/x?a=1&b=2", /^& is more.*in quotes/],
	"a redirection": ["curl $TOLLGATE_URL/v1/x > x", /^> is more/],
	"a command's output": ['curl $TOLLGATE_URL/v1/x -H "Idempotency-Key: $(uuidgen)"', /^\$\( is more/],
	"a command's output in backticks": ['curl $TOLLGATE_URL/v1/x -d "`id`"', /^` is more/],
	"more of a variable": ["curl ${TOLLGATE_URL:-x}/v1/x", /^\$\{ is more/],
	"another kind of quote": ["curl $TOLLGATE_URL/v1/x -d $'a'", /^\$' is more/],
	"a second line": ["curl $TOLLGATE_URL/v1/x\n-d a", /end a line with a backslash/],
	"a blank behind the backslash": ["curl $TOLLGATE_URL/v1/x \\ \n-d a", /nothing behind it/],
	"a backslash at the end": ["curl $TOLLGATE_URL/v1/x \\", /ends with a backslash/],
	"an open quote": ["curl $TOLLGATE_URL/v1/x -d '{", /quote ' is not closed/],
	"an unknown variable": ["curl $TOLLGATE_URL/v1/$TICKET", /^\$TICKET has no value\.$/],
	"a variable of every object": ["curl $TOLLGATE_URL/v1/$constructor", /^\$constructor has no value/],
	"a file": ["curl $TOLLGATE_URL/v1/x -d @body.json", /-d @body\.json reads a file/],
	"a file of JSON": ["curl $TOLLGATE_URL/v1/x --json @body.json", /reads a file/],
	"a file of headers": ["curl $TOLLGATE_URL/v1/x -H @headers", /reads a file/],
	"a file to encode": ["curl $TOLLGATE_URL/v1/x --data-urlencode a@b", /reads a file/],
	"an option": ["curl $TOLLGATE_URL/v1/x -u a:b", /option -u is not understood here.*Understood are/],
	"an option among flags": ["curl -sku $TOLLGATE_URL/v1/x", /option -k is not/],
	"a long option": ["curl --proxy=x $TOLLGATE_URL/v1/x", /option --proxy=x is not/],
	"no value": ["curl $TOLLGATE_URL/v1/x -H", /-H has no value/],
	"no header": ['curl $TOLLGATE_URL/v1/x -H "Accept json"', /“Accept json” is no header/],
	"a header without a value": ["curl $TOLLGATE_URL/v1/x -H Accept:", /is no header/],
	"a header of two lines": ["curl $TOLLGATE_URL/v1/x -H 'A: b\nC: d'", /is no header/],
	"a header twice": ["curl $TOLLGATE_URL/v1/x -H 'Idempotency-Key: a' -H 'idempotency-key: b'", /idempotency-key is there twice/],
	"a header of the browser's": ["curl $TOLLGATE_URL/v1/x -H 'Host: other.example'", /browser sends Host itself/],
	"a body of a read": ["curl -X GET $TOLLGATE_URL/v1/x -d a", /no body with GET.*-G/],
	"a method that browsers refuse": ["curl -X TRACE $TOLLGATE_URL/v1/x", /method TRACE/],
};

for (const [name, [command, message]] of Object.entries(refused)) {
	test(`refused: ${name}`, () => assert.throws(() => parse(command, variables, base), { name: "Error", message }));
}

test("who is refused for a variable is told which", () => {
	assert.throws(() => parse("curl $TOLLGATE_URL/v1/$TICKET", variables, base), { variable: "TICKET" });
});

test("an assertion is signed by the key, for one use", async () => {
	const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
	const pair = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
	// What a key may say beside itself must not keep it from signing.
	const jwk = JSON.stringify({ ...(await crypto.subtle.exportKey("jwk", pair.privateKey)), kid: "key_1", use: "sig", alg: "ES256", key_ops: ["verify"] });
	const before = Math.floor(Date.now() / 1000);
	const [one, two] = await Promise.all([sign(jwk, "cli_é", base), sign(jwk, "cli_é", base)]);
	const [header, claims, signature] = one.split(".");
	const part = (text) => JSON.parse(Buffer.from(text, "base64url"));
	assert.match(one, /^[\w-]+\.[\w-]+\.[\w-]{86}$/);
	assert.ok(await crypto.subtle.verify(algorithm, pair.publicKey, Buffer.from(signature, "base64url"), Buffer.from(`${header}.${claims}`)));
	assert.deepEqual(part(header), { alg: "ES256", kid: "key_1", typ: "client-authentication+jwt" });
	const { exp, iat, jti, ...who } = part(claims);
	assert.deepEqual(who, { iss: "cli_é", sub: "cli_é", aud: base });
	assert.ok(iat >= before && exp === iat + 60, `from ${iat} to ${exp}`);
	assert.match(jti, /^[\w-]{36}$/);
	assert.notEqual(jti, part(two.split(".")[1]).jti);
});

test("an assertion is not signed with another kind of key", async () => {
	const other = { kty: "EC", crv: "P-384", x: "", y: "", d: "a" };
	await assert.rejects(sign(JSON.stringify(other), "cli_1", base), /not a private P-256 key/);
	await assert.rejects(sign(JSON.stringify({ ...other, crv: "P-256", d: undefined }), "cli_1", base), /not a private P-256 key/);
});
