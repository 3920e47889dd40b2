// Samples: one language at a time, the reader's choice on every page; a button that copies. `/` goes to the search.
(() => {
  const KEPT = "fuelroute.language"

  const choose = language => {
    for (const box of document.querySelectorAll(".samples")) {
      if (!box.querySelector(`.sample[data-language="${language}"]`)) continue
      for (const sample of box.querySelectorAll(".sample")) sample.hidden = sample.dataset.language !== language
      for (const tab of box.querySelectorAll("[role=tab]")) {
        const chosen = tab.dataset.language === language
        tab.setAttribute("aria-selected", chosen)
        tab.tabIndex = chosen ? 0 : -1
      }
    }
  }

  const addTabs = (box, number) => {
    const samples = [...box.querySelectorAll(".sample")]
    if (samples.length < 2) return
    const tabs = document.createElement("div")
    tabs.setAttribute("role", "tablist")
    tabs.setAttribute("aria-label", "Language")
    samples.forEach((sample, place) => {
      const tab = document.createElement("button"), title = sample.querySelector(".language")
      tab.type = "button"
      tab.id = `tab-${number}-${place}`
      tab.textContent = title.textContent
      tab.dataset.language = sample.dataset.language
      tab.setAttribute("role", "tab")
      sample.id = `sample-${number}-${place}`
      sample.setAttribute("role", "tabpanel")
      sample.setAttribute("aria-labelledby", tab.id)
      tab.setAttribute("aria-controls", sample.id)
      title.remove()
      tabs.append(tab)
    })
    const choose_and_keep = tab => {
      const above = tab.getBoundingClientRect().top
      choose(tab.dataset.language)
      scrollBy(0, tab.getBoundingClientRect().top - above) // the reader stays where they are
      try { localStorage.setItem(KEPT, tab.dataset.language) } catch { /* a browser that keeps nothing */ }
    }
    tabs.addEventListener("click", event => event.target.dataset.language && choose_and_keep(event.target))
    tabs.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
      if (!step) return
      const all = [...tabs.children]
      const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length]
      next.focus()
      choose_and_keep(next)
    })
    box.prepend(tabs)
  }

  document.querySelectorAll(".samples").forEach(addTabs)
  choose("bash")
  try { choose(localStorage.getItem(KEPT)) } catch { /* the first one is shown */ }

  for (const code of document.querySelectorAll("article pre")) {
    const button = document.createElement("button"), frame = document.createElement("div")
    button.type = "button"
    button.className = "copy"
    button.textContent = "Copy"
    frame.className = "copied"
    code.replaceWith(frame)
    frame.append(code, button)
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent)
      button.textContent = "Copied"
      setTimeout(() => { button.textContent = "Copy" }, 1500)
    })
  }

  if (matchMedia("(max-width: 800px)").matches) document.querySelector("nav details").open = false

  addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea")) return
    event.preventDefault()
    document.querySelector("header input").focus()
  })
})()
