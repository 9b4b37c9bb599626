(()=>{let t=null;try{t=localStorage.getItem("volta-theme")}catch{}
const d=window.matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme=t==="dark"||t==="light"?t:d?"dark":"light"})();
