/** The stylesheet and the icon, which are all that a page loads. */

export const STYLE = `
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1c2430; --quiet: #566072; --edge: #dfe3ea; --soft: #eef1f5;
  --link: #1d5fbf; --accent: #2a6fdb; --one: #2a6fdb; --two: #12907c; --three: #c98a12; --four: #cc3d4d;
  --good: #12734f; --good-soft: #ddf3e8; --warn: #8a5a00; --warn-soft: #fdf0cf; --bad: #b3263a; --bad-soft: #fde3e6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #11151b; --card: #191f28; --text: #dfe5ee; --quiet: #93a0b4; --edge: #2c3541; --soft: #222a35;
    --link: #7fb2ff; --accent: #5b9bff; --one: #5b9bff; --two: #3cc4a8; --three: #e5b04a; --four: #ff7483;
    --good: #6fd6a8; --good-soft: #16382b; --warn: #f0c264; --warn-soft: #3d300f; --bad: #ff93a0; --bad-soft: #451c24;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
.skip { position: absolute; left: -9999px; }
.skip:focus { left: 8px; top: 8px; }
header { background: var(--card); border-bottom: 1px solid var(--edge); padding: 10px 24px 0; display: flex; flex-wrap: wrap; gap: 2px 24px; align-items: center; }
.top { display: flex; gap: 16px; align-items: center; flex: 1 1 100%; }
.brand { display: inline-flex; gap: 8px; align-items: center; font-weight: 700; font-size: 17px; color: var(--text); padding: 4px 0; }
.brand svg { width: 20px; height: 20px; }
.brand path { stroke: var(--accent); stroke-width: 2.6; stroke-linecap: round; fill: none; }
header > .brand { padding-bottom: 12px; }
.where { color: var(--quiet); margin-right: auto; }
nav { flex: 1 1 auto; min-width: 0; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: 0 18px; margin: 0; padding: 0; }
nav a { display: block; padding: 8px 0 9px; color: var(--quiet); border-bottom: 2px solid transparent; }
nav a:hover { color: var(--text); text-decoration: none; }
nav a[aria-current] { color: var(--text); border-color: var(--accent); font-weight: 600; }
.search { display: flex; gap: 6px; margin: 4px 0 6px; }
.search input { width: 230px; }
main { padding: 18px 24px 8px; max-width: 1440px; margin: 0 auto; }
h1 { font-size: 22px; margin: 4px 0 12px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 26px 0 10px; }
footer { padding: 14px 24px 20px; color: var(--quiet); font-size: 13px; display: flex; flex-wrap: wrap; gap: 4px 24px; max-width: 1440px; margin: 0 auto; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 7px 12px; font-size: 13px; color: var(--quiet); border-bottom: 1px solid var(--edge); }
th, td { text-align: left; padding: 7px 12px; vertical-align: top; }
th { font-weight: 600; font-size: 13px; color: var(--quiet); white-space: nowrap; border-bottom: 1px solid var(--edge); }
td > a > .foreign { min-width: 7em; }
th[title] { text-decoration: underline dotted; text-underline-offset: 3px; cursor: help; }
tbody tr + tr td { border-top: 1px solid var(--soft); }
tbody tr:hover td { background: var(--soft); }
footer a, .note a, .narrowed a, .warning a, .notice a { text-decoration: underline; }
.number { text-align: right; white-space: nowrap; }
.foreign { overflow-wrap: anywhere; unicode-bidi: isolate; }
bdi.foreign { white-space: pre-wrap; }
td .foreign { display: inline-block; max-width: 26em; overflow-wrap: break-word; vertical-align: top; }
code, pre { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
pre { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px; margin: 0; white-space: pre-wrap; max-height: 70vh; overflow: auto; }
.hidden-character { color: var(--warn); background: var(--warn-soft); border-radius: 3px; font-size: 85%; }
.none { color: var(--quiet); }
p.none { background: var(--card); border: 1px dashed var(--edge); border-radius: 8px; padding: 14px; margin: 0; }
.note { color: var(--quiet); font-size: 13px; max-width: 90ch; }
.warning, .notice { border-radius: 8px; padding: 9px 14px; background: var(--warn-soft); color: var(--warn); margin: 0 0 12px; }
.notice { background: var(--good-soft); color: var(--good); }
.badge { display: inline-block; padding: 0 8px; border-radius: 10px; font-size: 12.5px; line-height: 20px; white-space: nowrap; background: var(--soft); color: var(--quiet); font-weight: 500; }
.badge + .badge, a + .badge, .badge + a { margin-left: 4px; }
.badge.good { background: var(--good-soft); color: var(--good); }
.badge.warn { background: var(--warn-soft); color: var(--warn); }
.badge.bad { background: var(--bad-soft); color: var(--bad); }
.figures { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 14px; }
.figures div { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 8px 14px; min-width: 104px; }
.figures dt { color: var(--quiet); font-size: 13px; }
.figures dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.figures dd a { color: inherit; }
.figures .bad dd { color: var(--bad); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(215px, 1fr)); gap: 0 28px; margin: 0; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 8px 14px; }
.facts div { display: flex; justify-content: space-between; gap: 12px; padding: 4px 0; min-width: 0; }
.facts dt { color: var(--quiet); }
.facts dd { margin: 0; flex: 0 0 auto; max-width: 65%; text-align: right; overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr)); gap: 12px; }
.chart { margin: 0; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 10px 14px; }
.chart figcaption { font-weight: 600; font-size: 13px; margin-bottom: 4px; }
.chart svg { width: 100%; height: auto; display: block; }
.chart .note { margin: 6px 0 0; }
svg text { font: 11px system-ui, "DejaVu Sans", sans-serif; fill: var(--quiet); }
svg text.end { text-anchor: end; }
svg text.middle { text-anchor: middle; }
svg text.value { fill: var(--text); }
.grid { stroke: var(--edge); stroke-width: 1; fill: none; vector-effect: non-scaling-stroke; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.line.one { stroke: var(--one); } .line.two { stroke: var(--two); } .line.three { stroke: var(--three); } .line.four { stroke: var(--four); }
.bar.one { fill: var(--one); } .bar.warn { fill: var(--three); } .bar.bad { fill: var(--four); }
.hover { fill: transparent; }
.hover:hover { fill: var(--quiet); fill-opacity: 0.18; }
.track { fill: var(--soft); }
.mark { stroke: var(--three); stroke-width: 2; fill: none; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 4px 0 0; padding: 0; font-size: 12.5px; color: var(--quiet); }
.legend b { color: var(--text); font-weight: 600; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
.key.one { background: var(--one); } .key.two { background: var(--two); } .key.three { background: var(--three); } .key.four { background: var(--four); }
.spark { width: 90px; height: 22px; display: block; }
.share { width: 110px; height: 15px; display: block; margin-top: 3px; }
.fill { width: 160px; height: 16px; display: block; margin-top: 3px; }
.filter, .actions, .tabs { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; margin: 0 0 14px; }
.tabs b { border-bottom: 2px solid var(--accent); }
.next { display: flex; gap: 18px; margin: 12px 0; }
input, select, button, .button { font: inherit; font-size: 14px; color: var(--text); background: var(--card); border: 1px solid var(--edge); border-radius: 6px; padding: 4px 9px; }
select { max-width: 26em; }
button, .button { cursor: pointer; font-weight: 500; background: var(--soft); display: inline-block; }
button:hover, .button:hover { border-color: var(--accent); text-decoration: none; }
.confirm { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 14px; max-width: 640px; }
.confirm .facts { border: 0; padding: 0; }
.confirm .actions { margin: 14px 0 0; }
.confirm button { background: var(--accent); border-color: var(--accent); color: #fff; }
.confirm button.danger { background: var(--bad); border-color: var(--bad); }
@media (prefers-color-scheme: dark) { .confirm button { color: #0d1218; } }
textarea { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, monospace; color: var(--text); background: var(--card); border: 1px solid var(--edge); border-radius: 6px; padding: 6px 9px; width: 100%; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.chosen { margin: 10px 0 0; }
.undo { display: flex; gap: 14px; align-items: baseline; justify-content: space-between; border: 1px solid var(--edge); border-radius: 8px; background: var(--card); padding: 6px 14px; margin: 0 0 12px; }
.live { margin-left: 6px; }
progress { width: 90px; height: 10px; accent-color: var(--accent); vertical-align: middle; }
details > summary { cursor: pointer; }
.plain { background: none; border: 0; color: var(--link); padding: 0; }
.fields { display: grid; gap: 10px; }
.fields label { display: grid; grid-template-columns: 11em 9em 1fr; gap: 10px; align-items: center; }
.fields label.wide { grid-template-columns: 11em 1fr; }
.fields label.wide .none { grid-column: 2; }
main > .facts { margin-bottom: 14px; }
@media (max-width: 700px) {
  header, main, footer { padding-left: 14px; padding-right: 14px; }
  .fields label { grid-template-columns: 1fr; gap: 2px; }
  .search input { width: 100%; }
  .scroll { background: none; border: 0; overflow-x: visible; }
  table, thead, tbody, tr, td, caption { display: block; }
  thead { position: absolute; left: -9999px; }
  tr { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 6px 12px; margin: 0 0 10px; }
  tbody tr + tr td, tbody tr td { border: 0; }
  td, td.number { display: flex; justify-content: space-between; align-items: baseline; gap: 14px; padding: 3px 0; text-align: right; white-space: normal; }
  td::before { content: attr(data-name); color: var(--quiet); font-size: 13px; flex: 0 0 auto; }
  td:empty { display: none; }
  td .foreign { max-width: 62vw; }
  caption { padding: 0 0 6px; border: 0; }
  .undo { flex-wrap: wrap; }
}
`.trimStart();

export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 3h9M1 8h14M1 13h5"
    stroke="#2a6fdb" stroke-width="2.6" stroke-linecap="round" fill="none"/></svg>`;
