// An export: how far it is, and its file.
import { useEffect } from "preact/hooks";
import { write } from "../api.js";
import { Card, Change, Json } from "../parts.js";
import { Facts, get, html, Loaded, Page, State, Time, useLoad } from "../object.js";
import { size } from "../format.js";
import { go, home } from "../links.js";

const open = (e) => e.status === "pending" || e.status === "running";

export default function Export({ id, session }) {
	const found = useLoad(() => get(`/v1/exports/${id}`), [id]);
	useEffect(() => {
		if (!found.data || !open(found.data) || found.loading) return undefined;
		const timer = setTimeout(found.reload, 700);
		return () => clearTimeout(timer);
	}, [found.data, found.loading]);
	return html`<${Page} title="Export" sub=${html`<span class="mono">${id}</span>`} actions=${found.data && html`
		${found.data.status === "succeeded" && html`<a class="button" href=${`/console/api/v1/exports/${id}/file`} download>Download</a>`}
		${(open(found.data) || found.data.status === "succeeded") && html`<${Change} session=${session} danger name=${open(found.data) ? "Cancel" : "Delete the file"} title=${open(found.data) ? "Cancel this export" : "Delete the file"} done=${() => go(`${home}/exports`)} send=${() => write("DELETE", `/v1/exports/${id}`)}><p>The file cannot be downloaded afterwards.</p></${Change}>`}`}>
		<${Loaded} of=${found}>${(e) => html`
			${open(e) && html`<p><progress value=${e.progress.rows_done} max=${e.progress.rows_total || undefined} aria-label="Rows written"></progress> ${e.progress.rows_done}${e.progress.rows_total ? ` of ${e.progress.rows_total}` : ""} rows</p>`}
			<${Facts} rows=${[
				["Status", html`<${State} is=${e.status} />`],
				["Dataset", `${e.dataset}, ${e.format}`],
				["Created", html`<${Time} at=${e.created_at} />`],
				["Finished", html`<${Time} at=${e.finished_at} />`],
				e.result && ["File", html`${e.result.rows} rows, ${size(e.result.bytes)}, SHA-256 <span class="mono digest">${e.result.sha256}</span>`],
				e.result && ["Kept until", html`<${Time} at=${e.result.expires_at} />`],
				e.error && ["Error", html`<span class="mono">${e.error.code}</span> ${e.error.message}`],
			]} />
			<${Card} title="First rows"><${Json} of=${e.preview} label="First rows" /></${Card}>`}</${Loaded}>
	</${Page}>`;
}
