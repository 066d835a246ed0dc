// One endpoint: its deliveries, each attempt, and what can be done about them.
import { useState } from "preact/hooks";
import { write } from "../api.js";
import { Card, Change, Filters, Fragment, Listing, useFollow, useList, useQuery } from "../parts.js";
import { Facts, get, html, Id, Loaded, Page, State, Time, useLoad } from "../object.js";
import { Health } from "./webhooks.js";

const states = ["pending", "sending", "retrying", "succeeded", "failed", "held", "canceled"];

// Bar is where the time of an attempt went.
function Bar({ attempt }) {
	const { timing: t, duration_ms: total } = attempt;
	if (total == null) return html`<span class="soft">no answer came</span>`;
	const parts = [["DNS", t.dns_ms], ["connect", t.connect_ms], ["TLS", t.tls_ms], ["first byte", t.first_byte_ms]].filter(([, ms]) => ms != null);
	const words = parts.map(([name, ms]) => `${name} ${ms} ms`).join(", ") || "no parts known";
	const scale = Math.max(total, 1);
	return html`<span class="timing"><svg width="140" height="10" viewBox=${`0 0 ${scale} 10`} preserveAspectRatio="none" role="img" aria-label=${words}>
		<rect width=${scale} height="10" class="bar-rest" />${parts.reduce((drawn, [name, ms], i) => {
			const from = drawn.length ? drawn[drawn.length - 1].to : 0;
			return [...drawn, { from, to: from + ms, i, name }];
		}, []).map((p) => html`<rect key=${p.name} x=${p.from} width=${p.to - p.from} height="10" class=${`bar-${p.i}`} />`)}</svg> ${total} ms <span class="soft">${words}</span></span>`;
}

function Attempt({ of: a }) {
	return html`<li><div><strong>${a.number}.</strong> <${State} is=${a.status} /> <${Time} at=${a.started_at} /> <span class="soft">${a.trigger}</span></div>
		<${Bar} attempt=${a} />
		<${Facts} rows=${[
			["Sent", html`${a.request.body_bytes} bytes to <span class="mono text">${a.url}</span>, SHA-256 <span class="mono digest">${a.request.body_sha256}</span>`],
			["Signed with", a.signing_keys.map((k) => `key ${k.version} (${k.scheme})`).join(", ")],
			a.error && ["Error", html`<span class="mono">${a.error.code}</span> <span class="text">${a.error.message}</span>`],
			a.response && ["Answer", a.response.status_code],
			a.next_attempt_at && ["Next attempt", html`<${Time} at=${a.next_attempt_at} />`],
		]} />
		${a.response && html`<details><summary>Headers and body of the answer</summary><pre tabindex="0" aria-label="Answer">${Object.entries(a.response.headers).map(([n, v]) => `${n}: ${v}`).join("\n")}${"\n\n"}${a.response.body}${a.response.truncated ? "\n…" : ""}</pre></details>`}
	</li>`;
}

// Delivery reads its attempts again when the list's row of it, if there is one, changes.
function Delivery({ webhook, id, row, session, reload }) {
	const path = `/v1/webhooks/${webhook}/deliveries/${id}`;
	const attempts = useLoad(() => get(`${path}/attempts`, { limit: 100 }), [id, row?.state, row?.attempt_count]);
	return html`<${Card} title="Delivery" aside=${html`<span class="mono">${id}</span> <${Change} session=${session} name="Send again" title="Send this event again" done=${() => { attempts.reload(); reload(); }}
		send=${(form, key) => write("POST", `${path}/replays`, form.reason ? { reason: form.reason } : undefined, key)}><p>The endpoint gets the event once more, with the same webhook-id. A receiver that drops repeats does nothing.</p><label>Reason<input name="reason" autocomplete="off" /></label></${Change}>`}>
		<${Loaded} of=${attempts}>${(list) => (list.data.length ? html`<ol class="attempts">${list.data.map((a) => html`<${Attempt} of=${a} key=${a.id} />`)}</ol>` : html`<p class="empty">Nothing was tried yet.</p>`)}</${Loaded}>
	</${Card}>`;
}

function Actions({ w, session, reload }) {
	const path = `/v1/webhooks/${w.id}`;
	return html`<${Fragment}>
		<${Change} session=${session} name="Send a ping" title="Send a signed test" done=${reload} send=${(_, key) => write("POST", `${path}/test`, undefined, key)}><p>${w.url} gets an event of type ping.</p></${Change}>
		<${Change} session=${session} name="Recover" title="Send what was missed" done=${reload} send=${(form, key) => write("POST", `${path}/recoveries`, { since: new Date(form.since).toISOString() }, key)}>
			<p>Everything since then that was held, canceled or given up is sent again.</p><label>Since<input type="datetime-local" name="since" required /></label></${Change}>
		<${Change} session=${session} name=${w.status === "active" ? "Disable" : "Enable"} danger=${w.status === "active"} title=${w.status === "active" ? "Disable this endpoint" : "Enable this endpoint"} done=${reload}
			send=${() => write("PATCH", path, { status: w.status === "active" ? "disabled" : "active" })}><p>${w.status === "active" ? "Deliveries are held until it is enabled again." : "Deliveries go on. Recover what was held in between."}</p></${Change}>
	</${Fragment}>`;
}

// Secret is shown once, to whoever has made the endpoint in this tab.
function Secret({ id }) {
	const name = `secret ${id}`;
	const [secret, setSecret] = useState(sessionStorage.getItem(name));
	if (!secret) return null;
	return html`<div class="notice"><p>The secret that verifies deliveries. Keep it now: it is not shown again.</p><p><span class="mono text">${secret}</span></p>
		<button onClick=${() => { sessionStorage.removeItem(name); setSecret(null); }}>I have kept it</button></div>`;
}

export default function Webhook({ id, session }) {
	const webhook = useLoad(() => get(`/v1/webhooks/${id}`), [id]);
	const [query, change] = useQuery();
	const list = useList(`/v1/webhooks/${id}/deliveries`, { state: query.state, event_type: query.event_type });
	useFollow(query.live === "1", list.refresh);
	const columns = [
		{ name: "Event", cell: (d) => html`<button class="as-link row-link" onClick=${() => change({ ...query, delivery: d.id })}>${d.event_type}</button>` },
		{ name: "Created", cell: (d) => html`<${Time} at=${d.created_at} />` },
		{ name: "State", cell: (d) => html`<${State} is=${d.state} />` },
		{ name: "Attempts", number: true, cell: (d) => d.attempt_count },
		{ name: "Last answer", cell: (d) => d.last_status_code || d.failure_reason },
		{ name: "Next", cell: (d) => html`<${Time} at=${d.next_attempt_at} />` },
		{ name: "Id of the event", cell: (d) => html`<${Id} of=${d.event_id} />` },
	];
	return html`<${Page} title=${webhook.data?.description || "Webhook endpoint"} sub=${html`<span class="mono">${id}</span>`} actions=${webhook.data && html`<${Actions} w=${webhook.data} session=${session} reload=${() => { webhook.reload(); list.reload(); }} />`}>
		<${Secret} id=${id} />
		<${Loaded} of=${webhook}>${(w) => html`<${Facts} rows=${[
			["Address", html`<span class="mono text">${w.url}</span>`],
			["Status", html`<${State} is=${w.status} />${w.disabled_reason && html` <span class="text">${w.disabled_reason}</span>`}`],
			["Health", html`<${Health} id=${id} />`],
			["Events", w.event_types.length ? w.event_types.join(", ") : "all"],
			["Accounts", w.merchant_account_ids.length ? w.merchant_account_ids.join(", ") : "all"],
			["Signing keys", w.signing_keys.map((k) => `${k.version} (${k.scheme})${k.expires_at ? ` until ${k.expires_at}` : ""}`).join(", ")],
		]} />`}</${Loaded}>
		${query.delivery && html`<${Delivery} webhook=${id} id=${query.delivery} row=${list.rows.find((d) => d.id === query.delivery)} session=${session} reload=${list.reload} key=${query.delivery} />`}
		<${Card} title="Deliveries" aside=${html`<button aria-pressed=${query.live ? "true" : "false"} onClick=${() => change({ ...query, live: query.live ? "" : "1" })}>${query.live ? "Stop following" : "Follow live"}</button>`}><${Filters} fields=${[{ name: "event_type", label: "Event type", hint: "payment.captured" }, { name: "state", label: "State", options: states }]} values=${{ state: query.state, event_type: query.event_type }} onChange=${(v) => change({ ...v, delivery: query.delivery, live: query.live })} />
			<${Listing} list=${list} label="Deliveries" columns=${columns} empty="No delivery." /></${Card}>
	</${Page}>`;
}
