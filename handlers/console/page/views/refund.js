// A refund.
import { Facts, get, html, Id, Loaded, Money, Page, State, Time, useLoad } from "../object.js";

export default function Refund({ id }) {
	const refund = useLoad(() => get(`/v1/refunds/${id}`), [id]);
	return html`<${Page} title="Refund" sub=${html`<span class="mono">${id}</span>`}><${Loaded} of=${refund}>${(r) => html`<${Facts} rows=${[
		["Amount", html`<${Money} amount=${r.amount} currency=${r.currency} />`],
		["Status", html`<${State} is=${r.status} />`],
		["Fees for it", html`<${Money} amount=${r.fee_total} currency=${r.currency} />`],
		["Payment", html`<${Id} of=${r.payment_id} />`],
		["Account", html`<${Id} of=${r.merchant_account_id} />`],
		["Reason", html`<span class="text">${r.reason}</span>`],
		["Created", html`<${Time} at=${r.created_at} />`],
	]} />`}</${Loaded}></${Page}>`;
}
