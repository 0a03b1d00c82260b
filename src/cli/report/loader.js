// Starts the page's modules, whose texts the report holds. No two of them import each other.
const modules = JSON.parse(document.getElementById("modules").textContent);
const addresses = {};
const addressOf = (path) => addresses[path] ??= URL.createObjectURL(new Blob([
  modules[path].replaceAll(/^(import .* from) "(.*)";$/gm,
    (_, names, other) => `${names} "${addressOf(new URL(other, `file:///${path}`).pathname.slice(1))}";`),
], { type: "text/javascript" }));
import(addressOf("main.js"));
