// Keeps the page of a run up to date: the server sends the regions that changed, already as HTML.
const root = document.querySelector("[data-live]");

if (root) {
  const source = new EventSource(root.dataset.live + location.search);

  source.addEventListener("region", (event) => {
    const { id, html } = JSON.parse(event.data);
    const region = document.getElementById(id);
    if (!region) return;
    const open = [...region.querySelectorAll("details")].map((details) => details.open);
    const log = region.querySelector(".log");
    const atEnd = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    const top = log ? log.scrollTop : 0;
    region.innerHTML = html;
    region.querySelectorAll("details").forEach((details, index) => { details.open = open[index] ?? false; });
    const fresh = region.querySelector(".log");
    if (fresh) fresh.scrollTop = atEnd ? fresh.scrollHeight : top;
  });

  // The run has ended: the whole page has its final form on the server.
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.addEventListener("open", () => root.classList.remove("offline"));
  source.addEventListener("error", () => root.classList.add("offline"));
  window.addEventListener("pagehide", () => source.close());
}
