// An object: the service on a Redis that is the only authority. Two objects of one
// organization may run at once.
import { connect } from "cloudflare:sockets";
import module from "./tollgate.wasm";
import { Program } from "./program.js";

const idle = 60; // seconds

export class Tollgate {
	constructor(_state, env) {
		this.program = new Program(module, {
			setting: (name) => env[name] ?? "",
			dial: (address, encrypted) => connect(address, { secureTransport: encrypted ? "on" : "off" }),
			idle: Number(env.TOLLGATE_EDGE_IDLE) || idle,
		});
	}

	fetch(request) {
		return this.program.fetch(request);
	}
}
