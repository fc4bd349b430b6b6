package simtest

// pageTemplate is the template of a page.
const pageTemplate = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>
:root {
	color-scheme: light dark;
	--ink: #1c2024; --soft: #646b73; --paper: #fbfbfa; --card: #ffffff; --line: #dfe2e5; --code: #f1f2f3;
	--bad: #c62828; --badpaper: #fdeeee; --warn: #9a6100; --warnpaper: #fdf4e3; --good: #1b7a3d;
	--h0: #2f6fde; --h1: #8a4fd3; --h2: #0d8a83; --h3: #b5651d; --h4: #c2388f; --h5: #5d7a1f;
}
@media (prefers-color-scheme: dark) {
	:root {
		--ink: #e7e9ea; --soft: #9aa3ab; --paper: #15181b; --card: #1c2024; --line: #343a40; --code: #262b30;
		--bad: #ff8a80; --badpaper: #3a2020; --warn: #f0b95a; --warnpaper: #352b18; --good: #7fd39a;
		--h0: #7aa7ff; --h1: #c39bff; --h2: #58c9c1; --h3: #e5a265; --h4: #f48fcf; --h5: #b3cf6f;
	}
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 20px 16px 48px; max-width: 62rem; background: var(--paper); color: var(--ink);
	font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.1rem; font-weight: 600; color: var(--soft); margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; line-height: 1.35; margin: 8px 0; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px; margin: 0 0 24px; }
p { margin: 0 0 12px; color: var(--soft); }
.tag { display: inline-block; border-radius: 999px; padding: 1px 10px; font-size: .8rem; font-weight: 600;
	color: var(--bad); background: var(--badpaper); }
.advisory .tag { color: var(--warn); background: var(--warnpaper); }
code, .text, .at { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .84rem; }
pre { margin: 12px 0 0; padding: 10px 12px; background: var(--code); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 0 0 8px; padding: 0; list-style: none; font-size: .9rem; }
.legend svg { vertical-align: -1px; margin-right: 6px; }
ol { margin: 0; padding: 0; list-style: none; border-top: 1px solid var(--line); }
.row { display: grid; grid-template-columns: auto 4.6rem 1fr; }
.lanes { position: relative; }
.lanes svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.at { padding: 5px 8px 0 4px; text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
.text { padding: 4px 6px; line-height: 1.5; min-height: 30px; overflow-wrap: anywhere; }
.who { color: var(--soft); margin-right: 8px; }
.step .text { font-weight: 700; }
.row.step { border-top: 1px solid var(--line); }
.fault .text, .crash .text { color: var(--bad); background: var(--badpaper); font-weight: 600; }
.doubt .text { color: var(--warn); background: var(--warnpaper); }
.missing .text, .differs .text, .extra .text { color: var(--bad); }
.plain .text { color: var(--soft); }
.track { stroke: var(--line); stroke-width: 2; }
.s0 { stroke: var(--h0); fill: var(--h0); } .s1 { stroke: var(--h1); fill: var(--h1); } .s2 { stroke: var(--h2); fill: var(--h2); }
.s3 { stroke: var(--h3); fill: var(--h3); } .s4 { stroke: var(--h4); fill: var(--h4); } .s5 { stroke: var(--h5); fill: var(--h5); }
.hollow { fill: var(--card); stroke-width: 2; }
.bad { stroke: var(--bad); stroke-width: 3; fill: none; }
.ring { stroke: var(--bad); fill: var(--card); stroke-width: 3; }
@media (max-width: 34rem) {
	body { padding: 12px 8px 32px; }
	section { padding: 12px 10px; }
	.row { grid-template-columns: auto 1fr; }
	.at { grid-column: 2; grid-row: 1; text-align: left; padding: 4px 6px 0; font-size: .72rem; }
	.at:empty { display: none; }
	.lanes { grid-row: 1 / span 2; }
	.text { grid-column: 2; padding-top: 0; min-height: 24px; }
}
</style>
</head>
<body>
<h1>{{.Title}}</h1>
{{- range .Failures}}{{$lanes := .Lanes}}
<section class="{{.Severity}}">
<span class="tag">{{.Severity}}: {{.Rule}}</span>
<h2>{{.Problem}}</h2>
<p>{{.Rule.Means}}</p>
<ul class="legend">
{{- range $i, $name := $lanes}}
<li><svg width="10" height="10" aria-hidden="true"><circle class="s{{hue $i}}" cx="5" cy="5" r="5"/></svg>{{$name}}</li>
{{- end}}
</ul>
<ol>
{{- range .Lines}}{{$line := .}}
<li class="row {{.Mark}}">
<div class="lanes" style="width:{{width $lanes}}px"><svg aria-hidden="true">
{{- range $i, $name := $lanes}}<line class="track" x1="{{x $i}}" x2="{{x $i}}" y1="0" y2="100%"/>{{end}}
{{- if ge .Lane 0}}
{{- if eq .Mark "crash"}}<path class="bad" d="{{cross .Lane}}"/>
{{- else if eq .Mark "fault"}}<circle class="ring" cx="{{x .Lane}}" cy="{{y}}" r="5"/>
{{- else if or (eq .Mark "write") (eq .Mark "step")}}<circle class="s{{hue .Lane}}" cx="{{x .Lane}}" cy="{{y}}" r="6"/>
{{- else}}<circle class="s{{hue .Lane}} hollow" cx="{{x .Lane}}" cy="{{y}}" r="4"/>
{{- end}}{{end -}}
</svg></div>
<div class="at">{{.At}}</div>
<div class="text"><span class="who">{{.Who}}</span>{{.Text}}</div>
</li>
{{- end}}
</ol>
{{- with .Plan}}
<pre>go test -run '^{{$.Title}}$' -simtest.plan='{{.}}'</pre>
{{- end}}
{{- with len .More}}
<p style="margin:12px 0 0">{{.}} more plans fail in the same way.</p>
{{- end}}
</section>
{{- end}}
</body>
</html>
`
