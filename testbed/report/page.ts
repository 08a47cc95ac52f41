/** The page around the figures: one self-contained HTML file, light and dark, readable from 390 px up. */

import { escapeHtml } from './svg.js';

// Series colours: Okabe & Ito's palette (2008, safe for the colour blind), darkened or lightened to stand out from each background.
const style = `
:root{color-scheme:light dark;--bg:#fff;--card:#f6f7f9;--text:#1b1f24;--dim:#57606a;--line:#d5dae0;--axis:#6b7480;--link:#0b5cad;
--bad:#b3261e;--bad-bg:#fdecea;--warn:#7a4f00;--warn-bg:#fff4dc;--good:#176639;--good-bg:#e4f5ea;--shade:#8a94a01f;
--s1:#0072b2;--s2:#d55e00;--s3:#00875f;--s4:#b5548a;--s5:#a87900;--s6:#3f8fc4;--s7:#7a3db8;--s8:#4d4d4d}
@media (prefers-color-scheme:dark){:root{--bg:#101418;--card:#181e24;--text:#e6eaee;--dim:#a2acb6;--line:#303942;--axis:#8b96a1;--link:#7cc0ff;
--bad:#ff9d94;--bad-bg:#3d1a18;--warn:#f5cc7a;--warn-bg:#35290d;--good:#7fdca4;--good-bg:#12301e;--shade:#8a94a024;
--s1:#56b4e9;--s2:#ff8a4a;--s3:#2fc99a;--s4:#e58fc0;--s5:#efc250;--s6:#9fd4ff;--s7:#c39bf2;--s8:#c4c9ce}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1320px;margin:0 auto;padding:20px 16px 48px}
h1{font-size:1.6rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:32px 0 10px}h3{font-size:.95rem;margin:0}
p{margin:0 0 8px}a{color:var(--link)}.dim,figcaption p{color:var(--dim)}
.chips{display:flex;flex-wrap:wrap;gap:6px;margin:8px 0 0;padding:0;list-style:none}.chips li{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:1px 8px;font-size:.85rem;overflow-wrap:anywhere}
.state{border-radius:8px;padding:10px 14px;margin:14px 0 0;border:1px solid currentColor;overflow-wrap:anywhere}.state strong{display:block}.state ul{margin:4px 0 0;padding-left:18px}
.bad{color:var(--bad);background:var(--bad-bg)}.warn{color:var(--warn);background:var(--warn-bg)}.good{color:var(--good);background:var(--good-bg)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(158px,1fr));gap:10px;margin-top:16px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:9px 12px}.tile b{display:block;font-size:1.3rem;line-height:1.25;font-variant-numeric:tabular-nums}.tile span{color:var(--dim);font-size:.82rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),1fr));gap:14px}
.wide{grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr))}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:11px 10px 9px;min-width:0}figcaption p{font-size:.8rem;line-height:1.35;margin:1px 0 2px}
figure svg{display:block;width:100%;height:auto}
svg text{fill:var(--text);font-family:inherit}.tick{font-size:11.5px;fill:var(--dim)!important}.label,.row{font-size:12.5px}.note{fill:var(--dim);font-size:11.5px}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--axis);fill:none}.line{stroke-width:1.6;stroke-linejoin:round}.thin{stroke-width:1;opacity:.75}.band{opacity:.22}.outside{fill:var(--shade)}
.mark{stroke:var(--text);stroke-width:1;stroke-dasharray:3 3;opacity:.6;fill:none}.mark-label{font-size:11px;paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
.whisker{stroke-width:1.6;fill:none}.box{fill-opacity:.3;stroke-width:1.4}.median{stroke:var(--text);stroke-width:2.2}.value{fill:none;opacity:.7}
.wire{stroke:var(--axis);stroke-width:1.6;fill:none}.router{fill:var(--bg);stroke:var(--s1);stroke-width:2}.hosts{fill:var(--bg);stroke:var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:2px 12px;margin:5px 0 0;padding:0 0 0 4px;list-style:none;font-size:.82rem}.legend li{display:flex;align-items:center;gap:5px;overflow-wrap:anywhere}.legend svg{width:22px;height:8px;flex:none}
.scroll{overflow-x:auto;max-width:100%}.topology{width:100%;height:auto;display:block}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}th,td{padding:4px 12px 4px 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}thead th{font-weight:600;color:var(--dim)}tbody th{font-weight:400}td small{color:var(--dim);display:block;white-space:nowrap}
.words td,.words th{text-align:left;padding-right:18px}.words td{white-space:normal}.plots+.plots{margin-top:14px}.scroll+p,.plots+p,div:has(>.scroll)+p{margin-top:8px}.scroll+.scroll{margin-top:14px}
.pairs td,.pairs th{text-align:left;overflow-wrap:anywhere;white-space:normal}.pairs th{color:var(--dim);white-space:nowrap;padding-right:16px}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:12px 28px;align-items:start}
.tables{display:flex;flex-wrap:wrap;gap:18px 28px;align-items:flex-start}.tables>div{max-width:100%;min-width:0}
details{margin-top:10px}summary{cursor:pointer;color:var(--link)}pre{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px;font-size:.8rem}
@media (max-width:480px){main{padding:14px 12px 32px}table{font-size:.8rem}th,td{padding-right:7px}h1{font-size:1.3rem}}
@media (min-width:1000px){.wide .tick,.wide .mark-label{font-size:9px}.wide .label{font-size:9.5px}.wide .line{stroke-width:1.2}}
@media print{figure,tr{break-inside:avoid}.plots{display:block}figure{margin-bottom:12px}}
`;

export function page(title: string, body: string): string {
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">`
    + `<title>${escapeHtml(title)}</title><style>${style.replaceAll('\n', '')}</style></head>\n<body><main>\n${body}\n</main></body></html>\n`;
}

/** Cells are text, not HTML, unless given as `{ html }`. */
export type Cell = string | { readonly html: string };
const cell = (value: Cell): string => (typeof value === 'string' ? escapeHtml(value) : value.html);

/** @param words columns of words: to the left, as they are read */
export function table(head: readonly Cell[], body: readonly (readonly Cell[])[], words = false): string {
  if (body.length === 0) return '';
  return `<div class="scroll"><table${words ? ' class="words"' : ''}><thead><tr>${head.map((value) => `<th scope="col">${cell(value)}</th>`).join('')}</tr></thead><tbody>`
    + `${body.map((row) => `<tr>${row.map((value, index) => (index === 0 ? `<th scope="row">${cell(value)}</th>` : `<td>${cell(value)}</td>`)).join('')}</tr>`).join('')}</tbody></table></div>`;
}

export function pairs(list: readonly (readonly [string, Cell])[]): string {
  return `<table class="pairs"><tbody>${list.map(([key, value]) => `<tr><th scope="row">${escapeHtml(key)}</th><td>${cell(value)}</td></tr>`).join('')}</tbody></table>`;
}
