// Keeps the page of a run up to date: the server sends the regions that changed, already as HTML.
const root = document.querySelector("[data-live]");

if (root) {
  const source = new EventSource(root.dataset.live + location.search);

  source.addEventListener("region", (event) => {
    const { id, html } = JSON.parse(event.data);
    const region = document.getElementById(id);
    if (!region) return;
    const open = [...region.querySelectorAll("details")].map((details) => details.open);
    // A log's box counts from its end: 0 is the newest line, further up is negative.
    const log = region.querySelector(".log-box");
    const fromEnd = log ? log.scrollTop : 0;
    const height = log ? log.scrollHeight : 0;
    region.innerHTML = html;
    region.querySelectorAll("details").forEach((details, index) => { details.open = open[index] ?? false; });
    const fresh = region.querySelector(".log-box");
    if (fresh && fromEnd < -24) fresh.scrollTop = fromEnd - (fresh.scrollHeight - height);
  });

  // The run has ended: the whole page has its final form on the server.
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.addEventListener("open", () => root.classList.remove("offline"));
  source.addEventListener("error", () => root.classList.add("offline"));
  window.addEventListener("pagehide", () => source.close());
}
