// Payouts: what was paid and is due, and what another cutoff would change.
import { useEffect, useState } from "preact/hooks";
import { all, calculate } from "../api.js";
import { Card, Fault, Filters, html, Id, Listing, Loaded, Money, Page, State, Table, useList, useLoad, useQuery } from "../parts.js";
import { linkTo } from "../links.js";
import { grouped } from "../format.js";
import { Bars } from "../plot.js";
import { Cutoffs, Due, useDue } from "./calendar.js";

const columns = [
	{ name: "Payout date", cell: (p) => p.payout_date },
	{ name: "Amount", number: true, cell: (p) => html`<${Money} amount=${p.amount} currency=${p.currency} />` },
	{ name: "Status", cell: (p) => html`<${State} is=${p.status} />` },
	{ name: "Captured", number: true, cell: (p) => html`<${Money} amount=${p.amount_captured} />` },
	{ name: "Refunded", number: true, cell: (p) => html`<${Money} amount=${p.amount_refunded} />` },
	{ name: "Fees", number: true, cell: (p) => html`<${Money} amount=${p.fee_total} />` },
	{ name: "Account", cell: (p) => html`<${Id} of=${p.merchant_account_id} />` },
];

const clock = (minutes) => `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
const minutesOf = (text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3));

// Outcome shows what the window's captures bring to each payout date.
function Outcome({ preview }) {
	const currencies = [...new Set(preview.payouts.map((p) => p.currency))];
	const [currency, setCurrency] = useState(currencies[0]);
	const shown = currencies.includes(currency) ? currency : currencies[0];
	const rows = preview.payouts.filter((p) => p.currency === shown);
	if (!rows.length) return html`<p class="empty">Nothing was captured in the 30 days before now, so there is nothing to move.</p>`;
	return html`${currencies.length > 1 && html`<div class="filters"><label>Currency<select value=${shown} onChange=${(e) => setCurrency(e.target.value)}>${currencies.map((c) => html`<option selected=${c === shown}>${c}</option>`)}</select></label></div>`}
		<${Bars} label=${`Payouts by date in ${shown}, as they are and as proposed. The table has the numbers.`} series=${["as it is", "proposed"]}
			rows=${rows.map((p) => ({ name: p.payout_date.slice(5), values: [Number(p.amount_current), Number(p.amount_proposed)], texts: [grouped(p.amount_current), grouped(p.amount_proposed)] }))} />
		<${Table} label="Payouts by date" empty="" rows=${rows.map((p) => ({ ...p, id: p.payout_date }))} columns=${[
			{ name: "Payout date", cell: (p) => p.payout_date },
			{ name: "As it is", number: true, cell: (p) => html`<${Money} amount=${p.amount_current} currency=${p.currency} />` },
			{ name: "Proposed", number: true, cell: (p) => html`<${Money} amount=${p.amount_proposed} />` },
			{ name: "Difference", number: true, cell: (p) => html`<${Money} amount=${p.delta} />` },
		]} />`;
}

function Preview({ accounts }) {
	const [account, setAccount] = useState(accounts[0]);
	const [minutes, setMinutes] = useState(minutesOf(accounts[0].cutoff.cutoff_time));
	const [state, setState] = useState({});
	useEffect(() => {
		let current = true;
		const timer = setTimeout(() => calculate("/v1/cutoffs/preview", { merchant_account_id: account.id, proposed: { cutoff_time: clock(minutes) } }).then(
			(preview) => current && setState({ preview }), (problem) => current && setState((s) => ({ ...s, problem }))), 150);
		return () => { current = false; clearTimeout(timer); };
	}, [account, minutes]);
	const { preview, problem } = state;
	const choose = (id) => {
		const next = accounts.find((a) => a.id === id);
		setAccount(next);
		setMinutes(minutesOf(next.cutoff.cutoff_time));
	};
	return html`<${Card} title="What another cutoff would change">
		<div class="filters">
			<label>Account<select value=${account.id} onChange=${(e) => choose(e.target.value)}>${accounts.map((a) => html`<option value=${a.id} selected=${a.id === account.id}>${a.name}</option>`)}</select></label>
			<label class="wide">The sales day ends at ${clock(minutes)} ${account.cutoff.time_zone}, now ${account.cutoff.cutoff_time}<input type="range" min="0" max="1425" step="15" value=${minutes} onInput=${(e) => setMinutes(Number(e.target.value))} aria-valuetext=${clock(minutes)} /></label>
		</div>
		<${Fault} problem=${problem} />
		${!preview && !problem && html`<p class="loading" role="status">Loading…</p>`}
		${preview && html`<p>${preview.summary.captures_moved} of ${preview.summary.captures} captures would join another day${preview.summary.amounts_moved.map((m) => html`, <${Money} amount=${m.amount} currency=${m.currency} key=${m.currency} />`)}. Nothing is changed here: cutoffs are set in the provisioning file.</p>
			<${Outcome} preview=${preview} />${preview.warnings.map((w) => html`<p class="soft" key=${w.code}>${w.message}</p>`)}`}
	</${Card}>`;
}

export default function Payouts() {
	const [values, change] = useQuery();
	const list = useList("/v1/payouts", values);
	const accounts = useLoad(() => all("/v1/merchant-accounts"), []);
	const due = useDue();
	return html`<${Page} title="Payouts" sub="A payout is captures minus refunds and fees of its sales days.">
		<${Card} title="Due"><${Due} due=${due} accounts=${accounts.data || []} /></${Card}>
		<${Card} title="Payouts"><${Filters} fields=${[{ name: "status", label: "Status", options: ["pending", "held", "in_transit", "paid", "failed"] }, { name: "currency", label: "Currency", hint: "EUR" }, { name: "merchant_account_id", label: "Account", hint: "ma_…" }]} values=${values} onChange=${change} />
			<${Listing} list=${list} label="Payouts" columns=${columns} to=${(p) => linkTo(p.id)} empty="No payout yet. Captures are paid on the date that their transactions have." /></${Card}>
		<${Loaded} of=${accounts}>${(found) => (found.length ? html`<${Cutoffs} accounts=${found} /><${Preview} accounts=${found} />` : null)}</${Loaded}>
	</${Page}>`;
}
