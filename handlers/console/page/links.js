// Where each kind of id has its page. `/console/<id>` works for all of them.

export const home = "/console";

const kinds = {
	pay: "payment", tkt: "payment", rfd: "refund", evt: "event", we: "webhook", po: "payout", exp: "export",
	per: "perimeter", rul: "rule", rs: "rule set", shd: "shadow", ma: "account", org: "organization", grt: "grant",
};

// kindOf is the kind of object that an id names, empty for one without a page.
export function kindOf(id) {
	const prefix = /^([a-z]+)_[A-Za-z0-9_]{1,60}$/.exec(id);
	return (prefix && kinds[prefix[1]]) || "";
}

// linkTo is the page of an id or of a citation such as "rule:card_fee@v2".
export function linkTo(id) {
	const rule = /^rule:([a-z0-9_]+)@(v[0-9]+)$/.exec(id);
	return `${home}/${rule ? `rul_${rule[1]}_${rule[2]}` : id}`;
}

// citationOf is the rule that an id names: "rul_card_fee_v2" is "rule:card_fee@v2".
export function citationOf(id) {
	return id.replace(/^rul_(.+)_(v[0-9]+)$/, "rule:$1@$2");
}

// go shows another page of the console.
export function go(path) {
	history.pushState(null, "", path);
	dispatchEvent(new Event("tollgate:go"));
}
