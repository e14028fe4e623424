"""How the pages look: light and dark, wide and narrow, on paper; the filter works without script."""

STYLE = """
:root { color-scheme: light dark; --paper: #f6f5f2; --sheet: #fff; --ink: #1d1d1b; --soft: #62605a; --line: #dedbd3; --said: #eceae4;
  --first: #2a62c4; --second: #b8420f; --third: #0f7565; --near: #b9e0d8; --warn: #fdf1d3; --warn-line: #d9a520; }
@media (prefers-color-scheme: dark) { :root { --paper: #161617; --sheet: #202022; --ink: #ecebe7; --soft: #a5a39c; --line: #3a3a3d;
  --said: #2e2e31; --near: #1f5a50; --first: #8ab1f8; --second: #f3a26f; --third: #56c9b3; --warn: #352c14; --warn-line: #a5811f; } }
* { box-sizing: border-box; }
body { max-width: 1180px; margin: 0 auto; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: clamp(1.5rem, 1.1rem + 2vw, 2.1rem); line-height: 1.2; letter-spacing: -.015em; text-wrap: balance; }
h2 { margin: 3rem 0 1rem; font-size: 1.35rem; letter-spacing: -.01em; }
h3 { margin: 2.25rem 0 .75rem; font-size: 1.05rem; }
h3 small { margin-left: .4rem; font-weight: 400; font-size: .875rem; color: var(--soft); }
h5 { margin: 1.1rem 0 .5rem; font-size: .8125rem; font-weight: 600; color: var(--soft); }
p, dl, dd, ol, figure, blockquote { margin: 0; }
ol { padding: 0; list-style: none; }
.lead { margin: .4rem 0 1.1rem; color: var(--soft); }
.hint { max-width: 75ch; margin: 0; font-size: .875rem; color: var(--soft); }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .75rem; }
.tiles div { padding: .8rem 1rem .7rem; background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
.tiles dt { font-size: .875rem; color: var(--soft); }
.tiles dd { font-size: 1.9rem; font-weight: 600; line-height: 1.2; letter-spacing: -.02em; }
.tiles dd small { font-size: 1rem; font-weight: 400; color: var(--soft); }
.tiles .start { font-size: .8125rem; font-weight: 400; line-height: 1.5; letter-spacing: 0; color: var(--soft); }
.notes { margin: 1rem 0 0; padding: .7rem 1rem .7rem 2.1rem; background: var(--warn); border: 1px solid var(--warn-line); border-radius: 10px;
  font-size: .9375rem; }

table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem; border-bottom: 1px solid var(--line); text-align: right; }
thead th { font-size: .875rem; font-weight: 600; color: var(--soft); }
tbody th { font-weight: 400; }
.scroll { overflow-x: auto; }
.scroll:focus-visible { outline: 3px solid var(--first); outline-offset: 2px; }
.scroll table { width: 100%; }
.scroll :is(th, td) { white-space: nowrap; }
.scroll tbody th, .scroll tfoot th { font-weight: 400; text-align: left; }
.scroll thead th:first-child { text-align: left; }
.scroll + .hint { margin-top: .75rem; }
tbody tr:last-child > *, thead tr:last-child > * { border-bottom-color: var(--soft); }
.facts tr:last-child > * { border-bottom-color: var(--line); }
.histogram { font-size: .875rem; }
.histogram :is(th, td) { padding: .2rem .4rem; border: 0; }
.histogram td { min-width: 3.2rem; }
.histogram th { text-align: left; }
.bar { display: block; padding: .15rem .3rem; border-radius: 3px; text-align: left;
  background: linear-gradient(var(--said), var(--said)) 0 / calc(100% * var(--share)) 100% no-repeat; print-color-adjust: exact; }
.near .bar { background-image: linear-gradient(var(--near), var(--near)); }
.facts th, .facts td { padding-left: 0; text-align: left; vertical-align: top; }
.facts th { padding-right: 2rem; color: var(--soft); white-space: nowrap; }

.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: .75rem; margin-top: 1.25rem; }
.plots figure { padding: .9rem 1rem; background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
.plots figcaption { margin-bottom: .4rem; font-weight: 600; font-size: .9375rem; }
.plot { display: block; width: 100%; max-width: 480px; height: auto; font-family: inherit; }

.filters { position: sticky; top: 0; z-index: 1; padding: .5rem 0; background: var(--paper); }
.filter { display: flex; flex-wrap: wrap; align-items: center; gap: .3rem .4rem; margin: 0; padding: .15rem 0; border: 0; }
.filter legend { float: left; padding: 0; margin-right: .4rem; font-size: .9375rem; color: var(--soft); }
.nothing { display: none; padding: 2rem 0; color: var(--soft); }
.filter label { position: relative; }
.filter input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
.filter span { display: block; padding: .35rem .85rem; border: 1px solid var(--line); border-radius: 99px; background: var(--sheet);
  font-size: .9375rem; }
.filter b { margin-left: .2rem; font-weight: 400; color: var(--soft); font-variant-numeric: tabular-nums; }
.filter :checked + span { background: var(--ink); border-color: var(--ink); color: var(--paper); }
.filter :checked + span b { color: inherit; }
.filter :disabled + span { opacity: .5; }
.filter :focus-visible + span { outline: 3px solid var(--first); outline-offset: 2px; }
.dialog { margin-bottom: 1rem; padding: 1rem 1.1rem 1.1rem; background: var(--sheet); border: 1px solid var(--line); border-radius: 12px; }
.dialog header { display: flex; align-items: baseline; gap: .2rem .75rem; margin-bottom: .8rem; }
.dialog h4 { margin: 0; font-size: .9375rem; white-space: nowrap; }
.name { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: .9375rem; color: var(--soft); }
.outcome { padding: .1rem .7rem; border: 1px solid var(--line); border-radius: 99px; font-size: .875rem; font-weight: 600; white-space: nowrap; }
.first .outcome { border-color: var(--third); color: var(--third); }
.story { display: grid; grid-template-columns: 128px 1fr; gap: 1.4rem; }
.turns { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); column-gap: 1.1rem; }
.turns li { display: grid; grid-row: span 3; grid-template-rows: subgrid; align-content: start; max-width: 230px; }
.turns li:nth-child(n + 7) { margin-top: 1rem; }
.tag { margin-bottom: .3rem; font-size: .75rem; line-height: 1.3; white-space: nowrap; color: var(--soft); }
.target .tag, .hit .tag { font-weight: 600; color: var(--third); }
.tile { width: 100%; max-width: 128px; aspect-ratio: 1; border: 1px solid var(--line); border-radius: 8px;
  background: #fff center / contain no-repeat; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.card { display: grid; place-items: center; padding: .4rem; background: var(--paper); font-size: .75rem; line-height: 1.3; text-align: center; }
.card span { display: -webkit-box; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 6; }
.target .tile, .hit .tile { border-color: transparent; outline: 3px solid var(--third); outline-offset: -1px; }
.words { margin-top: .3rem; max-width: 140px; font-size: .75rem; line-height: 1.35; color: var(--soft); }
blockquote { margin-top: .55rem; padding: .4rem .7rem; border-radius: 4px 12px 12px 12px; background: var(--said); font-size: .875rem;
  line-height: 1.4; }
.rank { margin-top: .4rem; font-size: .8125rem; color: var(--soft); }
.rank b { font-size: 1rem; color: var(--ink); }
.move { white-space: nowrap; }
.move::before { content: "· "; }
.versus .turns li { grid-row: span 7; }
.run { margin: .9rem 0 .3rem; font-size: .75rem; line-height: 1.3; font-weight: 600; white-space: nowrap; }
.tag + .run { margin-top: 0; }
.a { color: var(--first); }
.b { color: var(--second); }
.legend { margin: 0 0 1.1rem; padding: 0; list-style: none; }
.legend b { margin-right: .4rem; }
.finding { font-weight: 600; }
.versus .dialog h4 { flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; }
.up { color: var(--third); }
.down { color: var(--second); }
.strip { display: grid; grid-template-columns: repeat(10, 1fr); gap: .7rem; }
.strip .card { padding: .25rem; font-size: .6875rem; }
.strip .card span { -webkit-line-clamp: 5; }

@media (max-width: 760px) {
  body { padding: 1.25rem .9rem 3rem; }
  .tiles { grid-template-columns: 1fr 1fr; }
  th, td { padding: .4rem .35rem; }
  .facts th { padding-right: 1rem; }
  .dialog { padding: .85rem; }
  .dialog header { flex-wrap: wrap; }
  .name { flex-basis: 100%; order: 3; white-space: normal; }
  .outcome { margin-left: auto; }
  .story { grid-template-columns: 1fr; gap: 1rem; }
  .turns { grid-template-columns: 1fr; }
  .turns li { grid-template: auto / 104px 1fr; grid-row: auto; column-gap: .9rem; align-items: start; max-width: none; }
  .turns li + li { margin-top: 1rem; }
  .turns :is(.tag, .run) { grid-column: 1 / -1; }
  .versus .turns li { grid-row: auto; }
  .versus .dialog h4 { white-space: normal; }
  blockquote { margin-top: 0; font-size: .9375rem; }
  .target { display: grid; grid-template-columns: 104px 1fr; column-gap: .9rem; }
  .target .tag { grid-column: 1 / -1; }
  .target .words { font-size: .875rem; margin-top: 0; }
  .strip { grid-template-columns: repeat(5, 1fr); gap: .5rem; }
  .strip .card { font-size: .625rem; line-height: 1.2; }
  .strip:not(:has([role=img])) { grid-template-columns: repeat(3, 1fr); }
  .strip:not(:has([role=img])) .card { font-size: .75rem; }
  .filter { gap: .3rem; }
  .filter span { padding: .3rem .6rem; font-size: .875rem; }
  .filters { position: static; }
  .filter legend { float: none; width: 100%; margin: 0 0 .3rem; font-size: .875rem; }
  .histogram { font-size: .8125rem; }
  .histogram :is(th, td) { padding: .2rem .1rem; }
  .histogram td { min-width: 2.6rem; }
  h3 small { display: block; margin: 0; }
}
@media print { .filters { display: none; } .dialog { break-inside: avoid; } }
"""
