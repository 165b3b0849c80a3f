#include <fmt/format.h>

#include "lib/report/page/chart.h"
#include "lib/report/page/html.h"
#include "lib/report/page/report.h"

namespace bv {
namespace {

constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--paper:#f6f7f9;--card:#fff;--ink:#111827;--soft:#5f6875;--edge:#e5e7eb;
--right:37,99,235;--wrong:234,88,12;--bar:#2563eb;--best:#047857}
@media (prefers-color-scheme:dark){:root{--paper:#0b1120;--card:#111827;--ink:#f3f4f6;--soft:#9ca3af;
--edge:#263041;--right:59,130,246;--wrong:249,115,22;--bar:#60a5fa;--best:#34d399}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1320px;margin:0 auto;padding:40px 28px 64px}
h1{font-size:28px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:20px;margin:44px 0 14px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2 small,.hint,header p{color:var(--soft);font-weight:400}
h2 small{font-size:15px}h3{font-size:15px;margin:26px 0 8px}.hint{margin:0 0 10px;font-size:14px}
header p{margin:6px 0 0}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(170px,1fr));gap:14px;margin-top:26px}
.card,.panel,table,.bars,.facts,pre{background:var(--card);border:1px solid var(--edge);
border-radius:12px}
.card{padding:14px 16px}
.card .label{font-size:13px;color:var(--soft);overflow-wrap:anywhere}
.card .value{font-size:26px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.card .note{font-size:12.5px;color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,350px),1fr));gap:16px;
align-items:start}
.panel{padding:6px}.panel svg{display:block;width:100%;height:auto;max-width:560px;margin:0 auto}
.scroll{overflow-x:auto}.beside{display:flex;flex-wrap:wrap;gap:0 32px}
.beside>div{max-width:100%;min-width:0}.beside>.wide{flex:1 1 420px}
table{border-collapse:separate;border-spacing:2px;padding:12px;font-size:13px;
font-variant-numeric:tabular-nums}
th{font-weight:500;color:var(--soft);text-align:right;padding:2px 8px;max-width:180px;
overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
th.truth,th.corner{position:sticky;left:0;background:var(--card)}
th.guess{padding:2px 0;text-align:center;vertical-align:bottom}
th.guess span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:130px;overflow:hidden}
.confusion td{min-width:38px;height:30px;text-align:center;border-radius:5px;background:var(--paper)}
.confusion td.right{background:rgba(var(--right),var(--a))}
.confusion td.wrong{background:rgba(var(--wrong),var(--a))}
.pairs td,.pairs th{padding:3px 14px;text-align:left}
.metrics td,.metrics th{padding:3px 12px;text-align:right;white-space:nowrap}
.metrics th:first-child{text-align:left;max-width:420px}.metrics tbody th{color:var(--ink)}
.metrics .best{color:var(--best);font-weight:650}
.bars{display:grid;grid-template-columns:minmax(60px,max-content) 1fr max-content;gap:7px 14px;
padding:16px;align-items:center;font-size:13.5px;max-width:860px}
.bars .name{max-width:240px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:right}
.track{display:block;background:var(--paper);border-radius:5px;height:14px;overflow:hidden}
.bar{display:block;height:100%;background:var(--bar);border-radius:5px}
.value{font-variant-numeric:tabular-nums}small{color:var(--soft)}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:12px;padding:10px;
text-align:center;font-size:13px;overflow-wrap:anywhere}
figure img{width:96px;height:96px;object-fit:contain;border-radius:6px}
figure .sharp{image-rendering:pixelated}
figcaption small{display:block;font-size:12px;line-height:1.35}
.facts{margin:0;padding:16px;display:grid;grid-template-columns:max-content 1fr;gap:6px 20px;
font-size:13.5px}
.facts dt{color:var(--soft);max-width:200px;overflow-wrap:anywhere}
.facts dd{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;min-width:0}
pre{padding:16px;overflow-x:auto;font-size:12.5px;line-height:1.45;
font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
@media (max-width:600px){
main{padding:24px 16px 40px}h1{font-size:23px}h2{margin-top:34px}
.cards{grid-template-columns:repeat(auto-fill,minmax(145px,1fr));gap:10px}
.card{padding:11px 13px}.card .value{font-size:22px}
th{max-width:110px}.metrics{padding:8px}.metrics td,.metrics th{padding:3px 6px}.metrics th:first-child{max-width:150px}
.bars{grid-template-columns:minmax(48px,max-content) 1fr}.bars .name{max-width:130px}
.bars .value{grid-column:2;margin-top:-6px}
.facts{grid-template-columns:1fr;gap:0}.facts dt{max-width:none}.facts dd{margin-bottom:9px}}
)";

}  // namespace

std::string page_start(const std::string& title, std::string_view style, const std::string& line) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}{3}</style>\n</head>\n<body>\n<main>\n"
      "<header><h1>{0}</h1><p>{4}</p></header>\n",
      escape_html(title), kPageStyle, chart_style(), style, line);
}

}  // namespace bv
