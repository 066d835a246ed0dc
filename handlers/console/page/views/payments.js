// All payments, and the search for some.
import { Filters, html, Id, Link, Listing, Money, Page, State, Time, useList, useQuery } from "../parts.js";
import { linkTo } from "../links.js";

const states = ["requires_review", "authorized", "partially_captured", "captured", "canceled", "declined", "expired"];

const fields = [
	{ name: "payee", label: "Payee", hint: "shop.example" },
	{ name: "status", label: "Status", options: states },
	{ name: "reference", label: "Reference" },
	{ name: "currency", label: "Currency", hint: "EUR" },
	{ name: "merchant_account_id", label: "Account", hint: "ma_…" },
	{ name: "created_after", label: "From", type: "date" },
	{ name: "created_before", label: "Until", type: "date" },
];

// A day is one of the reader's own time zone.
const instant = (day) => (day ? new Date(`${day}T00:00`).toISOString() : "");

export const columns = [
	{ name: "Created", cell: (p) => html`<${Time} at=${p.created_at} />` },
	{ name: "Amount", number: true, cell: (p) => html`<${Money} amount=${p.amount} currency=${p.currency} />` },
	{ name: "Status", cell: (p) => html`<${State} is=${p.status} />` },
	{ name: "Payee", cell: (p) => html`<span class="text">${p.payee}</span>` },
	{ name: "Fees", number: true, cell: (p) => html`<${Money} amount=${p.fee_total} />` },
	{ name: "Reference", cell: (p) => html`<span class="text">${p.reference}</span>` },
	{ name: "Payment", cell: (p) => html`<${Id} of=${p.id} />` },
];

export default function Payments() {
	const [values, change] = useQuery();
	const list = useList("/v1/payments", { ...values, created_after: instant(values.created_after), created_before: instant(values.created_before) });
	return html`<${Page} title="Payments" sub="The newest first. Press / to search, j and k to walk through the rows.">
		<${Filters} fields=${fields} values=${values} onChange=${change} />
		<${Listing} list=${list} label="Payments" columns=${columns} to=${(p) => linkTo(p.id)}
			empty=${Object.values(values).some(Boolean) ? "No payment matches." : html`There is no payment yet. Make one: <code>tollgate pay 100.00 EUR shop.example</code>`} />
	</${Page}>`;
}
