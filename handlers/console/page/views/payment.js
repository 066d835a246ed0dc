// One payment: what happened to it, and why its fees are what they are.
import { all, get, Problem, write } from "../api.js";
import { after } from "../format.js";
import { Card, Change, Facts, Fragment, html, Id, Json, Link, Loaded, Money, Page, State, Table, Time, useLoad } from "../parts.js";
import { linkTo } from "../links.js";
import { Ticket } from "./ticket.js";

const paymentOf = (id) => id.replace(/^tkt_/, "pay_");

// optional is what a narrower scope or a sandbox of an earlier build may refuse; the
// page shows the rest.
async function optional(read, otherwise) {
	try {
		return await read();
	} catch (error) {
		if (error instanceof Problem && [403, 404].includes(error.status)) return otherwise;
		throw error;
	}
}

async function readPayment(id) {
	const payment = await get(`/v1/payments/${id}`);
	const [ticket, transactions, events, refunds] = await Promise.all([
		optional(() => get(`/v1/tickets/${payment.ticket_id}`), null),
		optional(() => all("/v1/transactions", { payment_id: id }), []),
		optional(() => all("/v1/events", { object_id: id, order: "asc" }), []),
		optional(() => all(`/v1/payments/${id}/refunds`), []),
	]);
	const payouts = [...new Set(transactions.map((t) => t.payout_id).filter(Boolean))];
	const paid = await Promise.all(payouts.map((p) => optional(() => all("/v1/events", { object_id: p, order: "asc" }), [])));
	return { payment, ticket, transactions, events: [...events, ...paid.flat()], refunds };
}

// The deliveries of a payment's events: each endpoint's latest, since no address of
// the API has them by event.
async function readDeliveries(events) {
	const ids = new Set(events.map((e) => e.id));
	const endpoints = await optional(() => all("/v1/webhooks"), []);
	const lists = await Promise.all(endpoints.map((w) => all(`/v1/webhooks/${w.id}/deliveries`, {}, 300).then((found) => found.map((d) => ({ ...d, endpoint: w })))));
	return lists.flat().filter((d) => ids.has(d.event_id));
}

const titles = {
	"payment.authorized": "Authorized", "payment.captured": "Captured", "payment.declined": "Declined", "payment.review_required": "Waits for a review",
	"payment.canceled": "Canceled", "payment.released": "Rest released", "payment.expired": "Expired", "payment.refunded": "Refunded",
	"payout.created": "In a payout", "payout.paid": "Paid out", "payout.failed": "The payout failed", "payout.held": "The payout is held", "payout.released": "The payout is let go",
};

// story is everything that happened, in the order of time.
function story({ payment, events }) {
	const steps = events.map((e) => ({ at: e.created_at, title: titles[e.type] || e.type, event: e, amount: e.data.amount }));
	if (!steps.length) steps.push({ at: payment.created_at, title: "Created" });
	steps.sort((a, b) => new Date(a.at) - new Date(b.at));
	if (payment.status === "authorized" || payment.status === "partially_captured") steps.push({ at: payment.capture_before, title: "Expires, unless captured", ahead: true });
	return steps;
}

function Story({ of, deliveries }) {
	const steps = story(of);
	return html`<ol class="story">${steps.map((step, i) => html`<li key=${i} class=${step.ahead ? "ahead" : ""}>
		<div class="story-what"><strong>${step.title}</strong>${step.amount && html` <${Money} amount=${step.amount} currency=${of.payment.currency} />`}</div>
		<div class="soft"><${Time} at=${step.at} />${i > 0 && !step.ahead && html` · ${after(steps[i - 1].at, step.at)} later`}</div>
		<div class="soft">${step.event && html`<${Id} of=${step.event.id} />`}${step.event?.data.payout_id && html` <${Id} of=${step.event.data.payout_id} />`}
			${step.event && deliveries?.filter((d) => d.event_id === step.event.id).map((d) => html`<div key=${d.id}>to <${Id} of=${d.webhook_id} text=${d.endpoint.description || d.endpoint.url} /> <${State} is=${d.state} /> ${d.attempt_count > 1 && `${d.attempt_count} attempts`}</div>`)}
		</div>
	</li>`)}</ol>`;
}

function Actions({ payment, session, reload }) {
	const p = payment;
	const path = `/v1/payments/${p.id}`;
	const amount = (name, value) => html`<label>Amount in ${p.currency}<input name="amount" value=${value} inputmode="decimal" required autocomplete="off" /></label>`;
	const can = { authorized: ["capture", "cancel"], partially_captured: ["capture", "cancel"], requires_review: ["review", "cancel"] }[p.status] || [];
	return html`<${Fragment}>
		${can.includes("capture") && html`<${Change} session=${session} name="Capture" title="Capture this payment" done=${reload}
			send=${(form, key) => write("POST", `${path}/captures`, { amount: form.amount, final_capture: form.final === "on" }, key)}>
			<p>${p.payee} pays. ${p.amount_capturable} ${p.currency} of ${p.amount} can be captured.</p>${amount("amount", p.amount_capturable)}
			<label class="check"><input type="checkbox" name="final" defaultChecked /> This is the last capture: release the rest</label></${Change}>`}
		${can.includes("review") && html`<${Change} session=${session} name="Review" title="Decide on this payment" done=${reload}
			send=${(form, key) => write("POST", `${path}/reviews`, { decision: form.decision, note: form.note || undefined }, key)}>
			<p>${p.amount} ${p.currency} to ${p.payee} waits for a decision.</p>
			<label>Decision<select name="decision"><option value="approve">Approve: it becomes authorized</option><option value="reject">Reject: it becomes declined</option></select></label><label>Note<input name="note" autocomplete="off" /></label></${Change}>`}
		${can.includes("cancel") && html`<${Change} session=${session} name=${p.status === "partially_captured" ? "Release the rest" : "Cancel"} danger title="Give back what is not captured" done=${reload}
			send=${(form, key) => write("POST", `${path}/cancel`, { reason: form.reason || undefined }, key)}>
			<p>${p.amount_capturable} ${p.currency} can then not be captured any more.</p><label>Reason<input name="reason" autocomplete="off" /></label></${Change}>`}
		${["captured", "partially_captured"].includes(p.status) && p.amount_refundable !== undefined && /[1-9]/.test(p.amount_refundable) && html`<${Change} session=${session} name="Refund" danger title="Refund this payment" done=${reload}
			send=${(form, key) => write("POST", `${path}/refunds`, { amount: form.amount, reason: form.reason || undefined }, key)}>
			<p>${p.amount_refundable} ${p.currency} of ${p.amount_captured} captured can be refunded.</p>${amount("amount", p.amount_refundable)}<label>Reason<input name="reason" autocomplete="off" /></label></${Change}>`}
	</${Fragment}>`;
}

const money = [
	{ name: "Type", cell: (t) => t.type },
	{ name: "Amount", number: true, cell: (t) => html`<${Money} amount=${t.amount} currency=${t.currency} />` },
	{ name: "Status", cell: (t) => html`<${State} is=${t.status} />` },
	{ name: "Sales day", cell: (t) => t.batch_date },
	{ name: "Due", cell: (t) => t.available_on },
	{ name: "Payout", cell: (t) => html`<${Id} of=${t.payout_id} />` },
];

function Deliveries({ list }) {
	const columns = [
		{ name: "Event", cell: (d) => d.event_type },
		{ name: "Endpoint", cell: (d) => html`<span class="text">${d.endpoint.description || d.endpoint.url}</span>` },
		{ name: "State", cell: (d) => html`<${State} is=${d.state} />` },
		{ name: "Attempts", number: true, cell: (d) => d.attempt_count },
		{ name: "Last answer", cell: (d) => d.last_status_code || d.failure_reason },
	];
	return html`<${Table} label="Deliveries" columns=${columns} rows=${list} to=${(d) => `${linkTo(d.webhook_id)}?delivery=${d.id}`} empty="No endpoint wants these events, or they are older than the last 300 deliveries." />`;
}

export default function Payment({ id, session }) {
	const payment = paymentOf(id);
	const found = useLoad(() => readPayment(payment), [payment]);
	const deliveries = useLoad(() => (found.data ? readDeliveries(found.data.events) : Promise.resolve([])), [found.data]);
	const p = found.data?.payment;
	return html`<${Page} title=${p ? `${p.amount} ${p.currency} to ${p.payee}` : "Payment"} heading=${p && html`<${Money} amount=${p.amount} currency=${p.currency} /> to <span class="text">${p.payee}</span>`}
		sub=${html`<span class="mono">${payment}</span> ${p && html`<${State} is=${p.status} />`}`}
		actions=${p && html`<${Actions} payment=${p} session=${session} reload=${found.reload} />`}>
		<${Loaded} of=${found}>${(f) => html`<div class="columns">
			<div><${Card} title="What happened"><${Story} of=${f} deliveries=${deliveries.data} /></${Card}>
				<${Card} title="Payment"><${Facts} rows=${[
					["Captured", html`<${Money} amount=${p.amount_captured} currency=${p.currency} />`],
					["Capturable", html`<${Money} amount=${p.amount_capturable} currency=${p.currency} />`],
					["Refunded", html`<${Money} amount=${p.amount_refunded} currency=${p.currency} />`],
					["Fees", html`<${Money} amount=${p.fee_total} currency=${p.currency} />`],
					["Account", html`<${Id} of=${p.merchant_account_id} />`],
					["Perimeter", html`<${Id} of=${p.perimeter.id} />, version ${p.perimeter.version}: <${State} is=${p.perimeter.decision} />${p.perimeter.reason && ` ${p.perimeter.reason}`}`],
					["Reference", p.reference && html`<span class="text">${p.reference}</span>`],
					["Description", p.description && html`<span class="text">${p.description}</span>`],
					...Object.entries(p.metadata).map(([name, value]) => [html`<span class="text">${name}</span>`, html`<span class="text">${value}</span>`]),
				]} /></${Card}></div>
			<div>${f.ticket && html`<${Ticket} ticket=${f.ticket} />`}
				<${Card} title="Transactions"><${Table} label="Transactions" columns=${money} rows=${f.transactions} empty="Nothing is captured yet." /></${Card}>
				<${Card} title="Deliveries">${deliveries.problem ? html`<p class="bad">${deliveries.problem.message}</p>` : html`<${Deliveries} list=${deliveries.data || []} />`}</${Card}>
				<${Card} title="As the API has it"><details><summary>JSON</summary><${Json} of=${p} /></details></${Card}></div>
		</div>`}</${Loaded}>
	</${Page}>`;
}
