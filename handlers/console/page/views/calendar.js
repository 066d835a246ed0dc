// When sales days end, and what is paid on which day.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, now } from "../api.js";
import { Card, Fault, html, Id, Money, Table } from "../parts.js";
import { linkTo } from "../links.js";
import { amountOf, minorOf, places } from "../format.js";

const step = 2000; // transactions that are added up before the reader is asked

// useDue adds up what is captured and not yet in a payout, by due day, sales day,
// account and currency. While next is set, more is due than the sums say.
export function useDue() {
	const [state, setState] = useState({ days: [], count: 0, damaged: 0, loading: true });
	const shown = useRef(true);
	const read = useCallback(async (from) => {
		const days = new Map(from.days.map((d) => [d.id, { ...d }]));
		let { count, damaged, next } = from;
		const tell = (more) => shown.current && setState({ days: [...days.values()].sort((a, b) => a.id.localeCompare(b.id)), count, damaged, next, ...more });
		tell({ loading: true });
		try {
			do {
				const page = await get("/v1/transactions", { status: "pending", limit: 100, cursor: next });
				for (const t of page.data) {
					count++;
					if (t.damaged) damaged++;
					else if (t.available_on) add(days, t);
				}
				next = page.has_more ? page.next_cursor : "";
			} while (next && count < from.count + step && shown.current);
			tell({ loading: false });
		} catch (problem) {
			tell({ loading: false, problem });
		}
	}, []);
	useEffect(() => {
		shown.current = true;
		read(state);
		return () => { shown.current = false; };
	}, []);
	return { ...state, more: () => read(state) };
}

function add(days, t) {
	const id = `${t.available_on} ${t.batch_date} ${t.merchant_account_id} ${t.currency}`;
	const day = days.get(id) || { id, date: t.available_on, batch: t.batch_date, account: t.merchant_account_id, currency: t.currency, captures: 0, exponent: places(t.amount), minor: 0n };
	const minor = minorOf(t.amount);
	day.minor += t.type === "capture" ? minor : -minor;
	day.captures += t.type === "capture" ? 1 : 0;
	days.set(id, day);
}

const money = (d) => html`<${Money} amount=${amountOf(d.minor, d.exponent)} currency=${d.currency} />`;

// Due shows the days as a calendar, and what each day's sum is of.
export function Due({ due, accounts }) {
	const { days, count, damaged, next, loading, problem } = due;
	const nameOf = new Map(accounts.map((a) => [a.id, a.name]));
	return html`${days.length > 0 && html`<${Weeks} days=${days} />`}
		${(days.length > 0 || (!loading && !problem && !next)) && html`<${Table} label="What is due" rows=${days} empty="Nothing is captured and not yet paid." columns=${[
			{ name: "Due", cell: (d) => d.date },
			{ name: "Sales day", cell: (d) => d.batch },
			{ name: "Account", cell: (d) => nameOf.get(d.account) || html`<${Id} of=${d.account} />` },
			{ name: "Amount", number: true, cell: money },
			{ name: "Captures", number: true, cell: (d) => d.captures },
		]} />`}
		<${Fault} problem=${problem} retry=${due.more} />
		${damaged > 0 && html`<p class="notice">${damaged === 1 ? "One transaction cannot be read and is" : `${damaged} transactions cannot be read and are`} not in these sums. Run tollgate check.</p>`}
		${loading && html`<p class="loading" role="status">${count ? `Adding up: ${count} transactions so far…` : "Loading…"}</p>`}
		${!loading && next && html`<p class="notice">These sums are not complete: they are of ${count} transactions, and there are more. <button onClick=${due.more}>Add up more</button></p>`}`;
}

const oneDay = 86400000;
const dayOf = (text) => Date.parse(`${text}T00:00:00Z`);
const textOf = (day) => new Date(day).toISOString().slice(0, 10);
const monday = (day) => day - ((new Date(day).getUTCDay() + 6) % 7) * oneDay;
const weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

// Weeks is a calendar of the weeks in which something is due, and of this one.
function Weeks({ days }) {
	const today = textOf(now());
	const sums = new Map(); // by date, then by currency
	for (const d of days) {
		const of = sums.get(d.date) || new Map();
		const sum = of.get(d.currency) || { ...d, minor: 0n };
		sum.minor += d.minor;
		sums.set(d.date, of.set(d.currency, sum));
	}
	const weeks = [...new Set([today, ...sums.keys()].map((date) => monday(dayOf(date))))].sort((a, b) => a - b);
	return html`<table class="calendar">
		<caption class="hidden">Amounts by the day on which they are due</caption>
		<thead><tr>${weekdays.map((name) => html`<th scope="col" key=${name}>${name}</th>`)}</tr></thead>
		<tbody>${weeks.map((week) => html`<tr key=${week}>${weekdays.map((name, i) => {
			const date = textOf(week + i * oneDay);
			const of = [...(sums.get(date)?.values() || [])];
			return html`<td key=${name} class="${of.length ? "due" : ""} ${date === today ? "today" : ""}">
				<time datetime=${date}><span class="weekday">${name} </span>${short.format(dayOf(date))}</time>${date === today && html` <span class="state plain">today</span>`}
				${of.map((sum) => html`<p key=${sum.currency}>${money(sum)}</p>`)}</td>`;
		})}</tr>`)}</tbody>
	</table>`;
}

// openDay is the sales day that an account's captures join now: its local date, or the
// next one once the cutoff is over.
function openDay(cutoff) {
	const parts = Object.fromEntries(new Intl.DateTimeFormat("en-CA", { timeZone: cutoff.time_zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" }).formatToParts(now()).map((p) => [p.type, p.value]));
	const date = `${parts.year}-${parts.month}-${parts.day}`;
	return `${parts.hour}:${parts.minute}` < cutoff.cutoff_time ? date : textOf(dayOf(date) + oneDay);
}

const calendars = { none: "days", target: "TARGET business days", us_fed: "Federal Reserve business days", uk: "UK business days" };

// Cutoffs says when each account's sales day ends, and when it is paid.
export function Cutoffs({ accounts }) {
	return html`<${Card} title="Cutoffs"><${Table} label="Cutoffs by account" empty="" rows=${accounts} to=${(a) => linkTo(a.id)} columns=${[
		{ name: "Account", cell: (a) => a.name },
		{ name: "Open sales day", cell: (a) => openDay(a.cutoff) },
		{ name: "Ends at", cell: (a) => `${a.cutoff.cutoff_time} ${a.cutoff.time_zone}` },
		{ name: "Due after", cell: (a) => `${a.cutoff.settlement_delay_days} ${calendars[a.cutoff.calendar] || a.cutoff.calendar}` },
		{ name: "Paid", cell: (a) => a.cutoff.interval },
	]} /></${Card}>`;
}
