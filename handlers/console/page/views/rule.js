// One version of a rule: what it does, and why a fee is what it is.
import { useMemo, useState } from "preact/hooks";
import { get, Problem } from "../api.js";
import { Card, Facts, html, Id, Loaded, Money, Page, Table, Time, useLoad, useQuery } from "../parts.js";
import { amountOf, grouped, minorOf, size } from "../format.js";
import { citationOf } from "../links.js";
import { again, inputOf, run } from "../pricing.js";
import { Plot } from "../plot.js";
import { Backtest } from "./backtest.js";
import { Check } from "./ticket.js";

const text = (minor, exponent) => amountOf(minor, exponent);

// Why shows what a rule made of an evaluation's input, by running it again here.
function Why({ ticket, number, citation }) {
	const evaluation = ticket.evaluations.find((e) => e.number === number) || ticket.evaluations[0];
	const lines = ticket.lines.filter((l) => l.rule === citation && l.evaluation === evaluation.number);
	const here = useLoad(() => again(evaluation), [evaluation.number]);
	const { input } = evaluation;
	const sum = (list) => list.reduce((total, l) => total + minorOf(l.amount), 0n);
	const exponent = inputOf(evaluation).exponent;
	const mine = here.data?.lines.filter((l) => l.rule === citation);
	return html`<${Card} title="Why this fee" aside=${html`<${Check} evaluation=${evaluation} />`}>
		<p class="why">${lines.length
			? html`<strong>${lines[0].label}</strong> is <strong><${Money} amount=${text(sum(lines), exponent)} currency=${ticket.currency} /></strong>, because <span class="mono">${citation}</span> charges that for <${Money} amount=${input.amount} currency=${input.currency} /> to <span class="text">${input.payee}</span>.`
			: html`<span class="mono">${citation}</span> charged nothing for <${Money} amount=${input.amount} currency=${input.currency} /> to <span class="text">${input.payee}</span>.`}</p>
		<${Facts} rows=${[
			["Input", html`<${Money} amount=${input.amount} currency=${input.currency} />, payee <span class="text">${input.payee}</span>, ${evaluation.kind} ${evaluation.kind === "capture" ? input.capture_index : ""}`],
			["On the ticket", lines.length ? html`${lines.map((l) => html`<div>${l.label}: <${Money} amount=${l.amount} currency=${ticket.currency} /></div>`)}` : "no line"],
			["In your browser", here.problem ? here.problem.message : mine && (mine.length ? html`${mine.map((l) => html`<div>${l.label}: <${Money} amount=${text(l.minor, exponent)} currency=${ticket.currency} /></div>`)}` : "no line")],
			["Digest of all lines", html`<span class="mono digest">${evaluation.lines_sha256}</span>`],
			["Priced", html`<${Time} at=${evaluation.at} />`],
			["Ticket", html`<${Id} of=${ticket.id} />`],
		]} />
	</${Card}>`;
}

const steps = 200; // amounts that a curve is drawn from: a whole number of minor units apart

// priceAll runs one rule alone on each amount.
async function priceAll(rule, minors, input) {
	const results = await run([rule], minors.map((minor) => ({ ...input, minor })));
	const failed = results.find((r) => r.failed);
	if (failed) throw new Problem(0, { message: failed.failed });
	return results.map((r) => (r.refused ? null : r.total));
}

function useCurve(rules, input, upTo) {
	const minors = useMemo(() => {
		const step = upTo / BigInt(steps) || 1n;
		return Array.from({ length: steps + 1 }, (_, i) => BigInt(i) * step).filter((m) => m > 0n && m <= upTo);
	}, [upTo]);
	return useLoad(async () => {
		const totals = await Promise.all(rules.map((r) => priceAll(r, minors, input)));
		return { minors, totals };
	}, [rules.map((r) => r.sha256).join(), JSON.stringify(input), String(upTo)]);
}

function Curve({ rule, list, session, from }) {
	const name = rule.rule.replace(/@.*/, "");
	const others = list.filter((r) => r.rule.startsWith(`${name}@`) && r.rule !== rule.rule);
	const [other, setOther] = useState(others.length ? others[others.length - 1].rule : "");
	const [currency, setCurrency] = useState(from?.currency || "EUR");
	const [payee, setPayee] = useState(from?.payee || "shop.example");
	const exponent = session.exponents[currency] ?? 2;
	const [power, setPower] = useState(from ? Math.max(2, String(from.minor).length) : 2 + exponent); // of ten, in minor units
	const upTo = 2n * 10n ** BigInt(power);
	const [place, setPlace] = useState(from ? Math.max(1, Math.round(Number((from.minor * BigInt(steps)) / upTo))) : steps / 2); // of the amount, in steps
	const compared = list.find((r) => r.rule === other);
	const rules = [rule, compared].filter(Boolean);
	const curve = useCurve(rules, { currency, exponent, payee, captureIndex: 0, refund: false }, upTo);
	const scale = 10 ** exponent;
	const data = useMemo(() => curve.data && [curve.data.minors.map((m) => Number(m) / scale), ...curve.data.totals.map((list) => list.map((t) => (t === null ? null : Number(t) / scale)))], [curve.data]);
	const series = useMemo(() => rules.map((r) => ({ label: r.rule })), [rules.map((r) => r.rule).join()]);
	const at = curve.data && Math.min(curve.data.minors.length, place) - 1;
	const cents = (v) => grouped(v.toFixed(exponent));
	return html`<${Card} title="What it charges">
		<div class="filters">
			<label>Compare with<select value=${other} onChange=${(e) => setOther(e.target.value)}><option value="">nothing</option>${others.map((o) => html`<option value=${o.rule} selected=${o.rule === other}>${o.rule}</option>`)}</select></label>
			<label>Currency<select value=${currency} onChange=${(e) => setCurrency(e.target.value)}>${Object.keys(session.exponents).map((c) => html`<option value=${c} selected=${c === currency}>${c}</option>`)}</select></label>
			<label>Payee<input value=${payee} onChange=${(e) => setPayee(e.target.value)} autocomplete="off" /></label>
			<label>Up to ${grouped(amountOf(upTo, exponent))}<input type="range" min="2" max="10" value=${power} onInput=${(e) => setPower(Number(e.target.value))} /></label>
			<label>Amount ${at != null && grouped(amountOf(curve.data.minors[at], exponent))}<input type="range" min="1" max=${steps} value=${place} onInput=${(e) => setPlace(Number(e.target.value))} /></label>
		</div>
		<${Loaded} of=${curve}>${(c) => html`
			<${Plot} label=${`Fees of ${rules.map((r) => r.rule).join(" and ")} by amount, in ${currency}`} data=${data} series=${series} xLabel=${`amount in ${currency}`} format=${cents} xFormat=${cents} />
			<${Table} label="Fees at amounts" empty="" columns=${[
				{ name: "Amount", number: true, cell: (r) => html`<${Money} amount=${amountOf(r.minor, exponent)} currency=${currency} />` },
				...rules.map((rule, i) => ({ name: rule.rule, number: true, cell: (r) => (r.totals[i] === null ? "refused" : html`<${Money} amount=${amountOf(r.totals[i], exponent)} />`) })),
				...(rules.length === 2 ? [{ name: "Difference", number: true, cell: (r) => (r.totals.includes(null) ? "–" : html`<${Money} amount=${amountOf(r.totals[0] - r.totals[1], exponent)} />`) }] : []),
			]} rows=${[...new Set([at, Math.floor(steps / 10) - 1, Math.floor(steps / 4) - 1, Math.floor(steps / 2) - 1, c.minors.length - 1])].filter((i) => i >= 0 && i < c.minors.length).map((i) => ({ id: i, minor: c.minors[i], totals: c.totals.map((t) => t[i]) }))} />`}</${Loaded}>
		<p class="soft">Your browser runs these modules; nothing is asked of the service. Each rule runs alone, without the fees of the rules before it.</p>
	</${Card}>`;
}

function Source({ id }) {
	const source = useLoad(() => get(`/rules/${id}/source`), [id]);
	return html`<${Card} title="Source"><${Loaded} of=${source}>${(s) => (s ? html`<p class="soft">${s.name}</p><pre tabindex="0" aria-label="Source of the rule">${s.text}</pre>` : html`<p class="empty">Tollgate keeps the module, not what it was compiled from. The golden cases say what it must do.</p>`)}</${Loaded}></${Card}>`;
}

function Published({ id }) {
	const rule = useLoad(() => get(`/v1/rules/${id}`).catch((p) => { if (p.status === 404) return null; throw p; }), [id]);
	return html`<${Loaded} of=${rule}>${(r) => r && html`<${Card} title="Published">
		<${Facts} rows=${[["Signed by", html`<${Id} of=${r.signer_id} />, key <span class="mono">${r.key_id}</span>`], ["Published", html`<${Time} at=${r.created_at} />`], ["Fuel", `at most ${r.max_fuel} in its golden cases`]]} />
		<h3>Golden cases</h3>
		<${Table} label="Golden cases" empty="None." columns=${[
			{ name: "Amount", number: true, cell: (g) => html`<${Money} amount=${g.amount} currency=${g.currency} />` },
			{ name: "Payee", cell: (g) => html`<span class="text">${g.payee}</span>` },
			{ name: "Must give", cell: (g) => html`<span class="text">${g.failed ? "a failure" : g.refused ? `refusal: ${g.refused}` : (g.lines || []).map((l) => `${l.label} ${l.amount}`).join(", ") || "no line"}</span>` },
		]} rows=${r.golden} />
	</${Card}>`}</${Loaded}>`;
}

export default function Rule({ id, session }) {
	const citation = citationOf(id);
	const [query] = useQuery();
	const list = useLoad(() => get("/rules"), []);
	const ticket = useLoad(() => (query.ticket ? get(`/v1/tickets/${query.ticket}`) : Promise.resolve(null)), [query.ticket]);
	const evaluation = ticket.data?.evaluations.find((e) => String(e.number) === query.evaluation) || ticket.data?.evaluations[0];
	return html`<${Page} title=${citation} heading=${html`<span class="mono">${citation}</span>`}><${Loaded} of=${list}>${(rules) => {
		const rule = rules.find((r) => r.rule === citation);
		if (!rule) return html`<p class="empty">There is no rule ${citation}.</p>`;
		return html`${query.ticket && html`<${Loaded} of=${ticket}>${(t) => t && html`<${Why} ticket=${t} number=${evaluation.number} citation=${citation} />`}</${Loaded}>`}
			<div class="columns"><div><${Card} title="Version"><${Facts} rows=${[
				["Label", html`<span class="text">${rule.label}</span>`],
				["From", rule.builtin ? "Tollgate: it comes with the program" : "published"],
				["In force for", rule.merchant_account_ids?.length ? html`${rule.merchant_account_ids.map((m) => html`<div key=${m}><${Id} of=${m} /></div>`)}` : "no account"],
				["Module", html`${size(rule.bytes)}, SHA-256 <span class="mono digest">${rule.sha256}</span>`],
				rule.silent_currencies?.length > 0 && ["Charges nothing in", rule.silent_currencies.join(", ")],
			]} /></${Card}><${Source} id=${id} />${!rule.builtin && html`<${Published} id=${id} />`}</div>
			<div>${(!query.ticket || ticket.data !== undefined) && html`<${Curve} rule=${rule} list=${rules} session=${session} from=${evaluation && inputOf(evaluation)} />`}<${Backtest} rule=${rule} list=${rules} /></div></div>`;
	}}</${Loaded}></${Page}>`;
}
