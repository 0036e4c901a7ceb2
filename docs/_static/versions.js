// Offers the other versions where the site has several: versions.json is beside their directories (ext/versions.py).
(async () => {
    if (!location.protocol.startsWith("http")) return;
    const own = new URL(document.documentElement.dataset.content_root, location.href);
    const site = new URL("../", own);
    const answer = await fetch(new URL("versions.json", site)).catch(() => null);
    if (!answer?.ok) return;
    const versions = await answer.json();
    const select = document.createElement("select");
    select.ariaLabel = "Version";
    for (const { version, url } of versions) {
        const there = new URL(url, site).href;
        select.add(new Option(version, there, false, there === own.href));
    }
    select.addEventListener("change", async () => {
        // The same page, if that version has it.
        const page = new URL(location.href.slice(own.href.length), select.value);
        const found = await fetch(page, { method: "HEAD" }).catch(() => null);
        location.href = found?.ok ? page : select.value;
    });
    document.querySelector(".sidebar-versions").append(select);
})();
