// The ABI "tollgate:rule/1" in JavaScript: a request written, a reply read. The page
// runs the same module as the service, on the same bytes, and must get the same
// lines; so this says no to what the service says no to.

const windowSize = 4096;
const requestHeader = 64;
const replyHeader = 16;
const lineSize = 24;
const maxLines = 16;
const utf8 = new TextDecoder("utf-8", { fatal: true });

// label is what the module's manifest calls its lines.
function label(module) {
	const [section] = WebAssembly.Module.customSections(module, "tollgate.manifest");
	return JSON.parse(utf8.decode(section)).label;
}

// refunds says whether a module takes part in refunds.
function refunds(module) {
	return WebAssembly.Module.customSections(module, "tollgate.refund").length > 0;
}

// request writes one into the window and returns its length. input is {minor,
// currency, exponent, payee, captureIndex, refund}, minor a BigInt.
function request(window, input, lines, sum) {
	const payee = new TextEncoder().encode(input.payee);
	const total = requestHeader + payee.length;
	const at = new DataView(window.buffer, window.byteOffset, windowSize);
	window.fill(0, 0, requestHeader);
	at.setUint16(0, 1, true);
	at.setUint16(2, requestHeader, true);
	at.setUint32(4, total, true);
	at.setBigInt64(8, input.minor, true);
	window.set(new TextEncoder().encode(input.currency), 16);
	at.setUint8(24, input.exponent);
	at.setUint32(28, requestHeader, true);
	at.setUint32(32, payee.length, true);
	at.setUint32(36, total, true);
	at.setUint32(44, lines, true);
	at.setBigInt64(48, sum, true);
	at.setUint32(56, input.captureIndex || 0, true);
	at.setUint32(60, input.refund ? 1 : 0, true);
	window.set(payee, requestHeader);
	return total;
}

function text(reply, from, offset, length) {
	if (offset < from || offset + length > reply.length || length === 0) throw new Error("The rule's answer has text outside of it.");
	return utf8.decode(reply.subarray(offset, offset + length));
}

// read is what a reply says: {lines: [{label, minor}]} or {refused: {code, message}}.
function read(reply, name) {
	const at = new DataView(reply.buffer, reply.byteOffset, reply.length);
	const status = at.getUint32(0, true);
	const count = at.getUint32(4, true);
	if (status === 1 && count === 0) {
		const field = (n) => text(reply, 32, at.getUint32(n, true), at.getUint32(n + 4, true));
		return { refused: { code: field(16), message: field(24) } };
	}
	if (status !== 0 || count > maxLines || replyHeader + count * lineSize > reply.length) throw new Error("The rule's answer makes no sense.");
	const behind = replyHeader + count * lineSize;
	const lines = [];
	for (let n = replyHeader; n < behind; n += lineSize) {
		const length = at.getUint32(n + 12, true);
		lines.push({ label: length ? text(reply, behind, at.getUint32(n + 8, true), length) : name, minor: at.getBigInt64(n, true) });
	}
	return { lines };
}

// Rule is a compiled module. Each call has an instance of its own, so nothing that a
// call leaves behind reaches the next one.
export class Rule {
	constructor(citation, bytes) {
		this.citation = citation;
		this.module = new WebAssembly.Module(bytes);
		this.label = label(this.module);
		this.refunds = refunds(this.module);
	}

	run(input, lines, sum) {
		const { exports } = new WebAssembly.Instance(this.module, {});
		const address = exports.tg_buf() >>> 0;
		const length = request(new Uint8Array(exports.memory.buffer, address, windowSize), input, lines, sum);
		const size = exports.quote(length);
		if (size < replyHeader || size > windowSize) throw new Error(`The rule reports fault ${size}.`);
		return read(new Uint8Array(exports.memory.buffer, address, size), this.label);
	}
}

// price runs rules in their order, as a quote does. A line is {label, minor, rule}.
export function price(rules, input) {
	const found = [];
	let sum = 0n;
	for (const rule of rules) {
		if (input.refund && !rule.refunds) continue;
		const { lines, refused } = rule.run(input, found.length, sum);
		if (refused) return { refused: { ...refused, rule: rule.citation } };
		for (const line of lines) {
			found.push({ ...line, rule: rule.citation });
			sum += line.minor;
		}
	}
	return { lines: found, total: sum };
}
