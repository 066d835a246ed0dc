// The endpoints that events are sent to.
import { get, write } from "../api.js";
import { Change, html, Listing, Page, State, Time, useList, useLoad } from "../parts.js";
import { go, linkTo } from "../links.js";

// Health is how the latest deliveries of an endpoint went.
export function Health({ id }) {
	const latest = useLoad(() => get(`/v1/webhooks/${id}/deliveries`, { limit: 50 }), [id]);
	if (!latest.data) return html`<span class="soft">…</span>`;
	const list = latest.data.data;
	if (!list.length) return html`<span class="soft">nothing sent yet</span>`;
	const good = list.filter((d) => d.state === "succeeded").length;
	const waits = list.filter((d) => ["pending", "sending", "retrying"].includes(d.state)).length;
	const lost = list.length - good - waits;
	const tone = lost ? "bad" : waits ? "busy" : "good";
	return html`<span class="state ${tone}">${good} of the last ${list.length} received</span>${waits > 0 && html` ${waits} wait`}${lost > 0 && html` ${lost} given up`}`;
}

const columns = [
	{ name: "Endpoint", cell: (w) => html`<span class="text">${w.description || w.url}</span>` },
	{ name: "Address", cell: (w) => html`<span class="mono text">${w.url}</span>` },
	{ name: "Status", cell: (w) => html`<${State} is=${w.status} />` },
	{ name: "Health", cell: (w) => html`<${Health} id=${w.id} />` },
	{ name: "Events", cell: (w) => (w.event_types.length ? w.event_types.join(", ") : "all") },
	{ name: "Created", cell: (w) => html`<${Time} at=${w.created_at} />` },
];

export default function Webhooks({ session }) {
	const list = useList("/v1/webhooks", {});
	return html`<${Page} title="Webhooks" sub="Where events are delivered. Every attempt is kept, and every delivery can be sent again." actions=${html`
		<${Change} session=${session} name="Add an endpoint" title="Add an endpoint" done=${(w) => go(`${linkTo(w.id)}`)} send=${async (form, key) => {
			const made = await write("POST", "/v1/webhooks", { url: form.url, description: form.description || undefined }, key);
			sessionStorage.setItem(`secret ${made.id}`, made.secret);
			return made;
		}}><p>All events of your accounts from now on are sent there. You see the secret once, on the next page.</p>
			<label>Address<input name="url" type="url" required placeholder="https://shop.example/hooks" autocomplete="off" /></label><label>Description<input name="description" autocomplete="off" /></label></${Change}>`}>
		<${Listing} list=${list} label="Webhook endpoints" columns=${columns} to=${(w) => linkTo(w.id)} empty="No endpoint yet. Events are kept: an endpoint that you add can recover them." />
	</${Page}>`;
}
