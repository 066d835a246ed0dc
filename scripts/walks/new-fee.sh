#!/bin/sh
# A pricing analyst: a new fee from nothing to money, and back. Needs Go; with Node.js
# the fee is tested in V8, too.
set -eu
. "$(dirname "$0")/../dev.sh"

begin=$(date +%s)
start_dev
set -a
. "$work/dev.env"
set +a
mkdir "$work/desk"
cd "$work/desk"
tollgate() { "$work/tollgate" "$@"; }

# ticket FEE: a payment of 100.00 EUR is captured, and its ticket shows this fee line.
ticket() {
	payment=$(tollgate pay 100.00 EUR shop.example --automatic --quiet)
	tollgate ticket "$payment" >ticket
	grep -q "^$1\$" ticket || { cat ticket >&2; fail "the ticket has no line $1"; }
	echo "ok    $payment: $(grep "^$1\$" ticket)"
}

ticket 'Card fee  *2\.15  *rule:card_fee@v2  *2'

# The fee: 1.10 % and 0.20 in place of 1.40 % and 0.25, up to 1000.00.
tollgate rule new autumn_fee
sed -i.before 's/percentage = "1.40", fixed = "0.25"/percentage = "1.10", fixed = "0.20"/; s/^label = .*/label = "Autumn fee"/' autumn_fee/rule.toml
cmp -s autumn_fee/rule.toml autumn_fee/rule.toml.before && fail "rule.toml of a new rule has other fees"
rm autumn_fee/rule.toml.before
tollgate rule build autumn_fee

# The golden cases are those of the fee as it was: they say so, until they are changed.
if tollgate rule test autumn_fee >tested 2>&1; then
	fail "golden cases of another fee hold"
fi
grep -q 'FAIL .*golden case' tested || { cat tested >&2; fail "the test does not say which case"; }
cat >autumn_fee/golden.json <<'END'
[
  {"amount": "100.00", "currency": "EUR", "payee": "shop.example", "lines": [{"label": "Autumn fee", "amount": "1.30"}]},
  {"amount": "1000.00", "currency": "EUR", "lines": [{"label": "Autumn fee", "amount": "11.20"}]},
  {"amount": "1000.01", "currency": "EUR", "lines": [{"label": "Autumn fee", "amount": "12.25"}]},
  {"amount": "0.01", "currency": "USD", "lines": [{"label": "Autumn fee", "amount": "0.30"}]},
  {"amount": "100.00", "currency": "CHF", "refused": "Payments in this currency are not priced. (currency_not_priced)"}
]
END
tollgate rule test autumn_fee
tollgate rule diff rule:card_fee@v2 autumn_fee --to 1000.00 >difference
grep -q 'exact: both are tables' difference || fail "the difference of two tables is not exact"

tollgate rule publish autumn_fee --rule rule:autumn_fee@v1
ticket 'Card fee  *2\.15  *rule:card_fee@v2  *2' # published, it prices nothing yet
tollgate rule activate rule:autumn_fee@v1 --replace card_fee --accounts "$TOLLGATE_MERCHANT_ACCOUNT" --yes
ticket 'Autumn fee  *1\.30  *rule:autumn_fee@v1  *2'
priced=$payment
tollgate rule rollback "$TOLLGATE_RULE_SET" >rolled
ticket 'Card fee  *2\.15  *rule:card_fee@v2  *2'

# What was charged stays charged, and can be proved.
tollgate rule verify "$priced" >verified
grep -q '^ok: ' verified || { cat verified >&2; fail "the ticket is not verified"; }
echo "ok    the new fee was in force and is taken back, $(($(date +%s) - begin)) s after the start"
