// A payout: what it pays, and what it is made of.
import { write } from "../api.js";
import { Card, Change, Listing, useList } from "../parts.js";
import { Facts, get, html, Id, Loaded, Money, Page, State, Time, useLoad } from "../object.js";

const columns = [
	{ name: "Type", cell: (t) => t.type },
	{ name: "Amount", number: true, cell: (t) => html`<${Money} amount=${t.amount} currency=${t.currency} />` },
	{ name: "Payment", cell: (t) => html`<${Id} of=${t.payment_id} />` },
	{ name: "Payee", cell: (t) => html`<span class="text">${t.payee}</span>` },
	{ name: "Sales day", cell: (t) => t.batch_date },
];

export default function Payout({ id, session }) {
	const payout = useLoad(() => get(`/v1/payouts/${id}`), [id]);
	const list = useList("/v1/transactions", { payout_id: id });
	const p = payout.data;
	return html`<${Page} title=${p ? `Payout of ${p.amount} ${p.currency}` : "Payout"} sub=${html`<span class="mono">${id}</span> ${p && html`<${State} is=${p.status} />`}`} actions=${p?.status === "held" && html`
		<${Change} session=${session} name="Let it go" title="Let this payout go" done=${payout.reload} send=${(form, key) => write("POST", `/v1/payouts/${id}/release`, { reason: form.reason }, key)}>
			<p>It is held because <span class="text">${p.held_reason}</span>. Its captures, refunds and fees are added up again, and their sum is paid, whatever the payout says.</p><label>Reason<input name="reason" required autocomplete="off" /></label></${Change}>`}>
		<${Loaded} of=${payout}>${(p) => html`<${Facts} rows=${[
			["Captured", html`<${Money} amount=${p.amount_captured} currency=${p.currency} />, ${p.capture_count} ${p.capture_count === 1 ? "capture" : "captures"}`],
			["Refunded", html`<${Money} amount=${p.amount_refunded} currency=${p.currency} />`],
			["Fees", html`<${Money} amount=${p.fee_total} currency=${p.currency} />`],
			["Paid", html`<${Money} amount=${p.amount} currency=${p.currency} />`],
			["Payout date", p.payout_date],
			["Account", html`<${Id} of=${p.merchant_account_id} />`],
			["Payer's reference", p.reference && html`<span class="text">${p.reference}</span>`],
			p.failure_reason && ["Failed because", html`<span class="text">${p.failure_reason}</span>`],
			p.held_reason && ["Held because", html`<span class="text">${p.held_reason}</span>`],
			["Created", html`<${Time} at=${p.created_at} />`],
		]} />`}</${Loaded}>
		<${Card} title="What it is made of"><${Listing} list=${list} label="Transactions" columns=${columns} empty="No transaction." /></${Card}>
	</${Page}>`;
}
