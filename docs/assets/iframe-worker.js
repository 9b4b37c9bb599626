// Search without a server: browsers start no worker from a file, so on file:// a hidden frame takes its place.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inner = this.frame.contentWindow;
    this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
    this.heard = (event) => {
      if (event.source !== inner) return;
      const message = new MessageEvent("message", { data: event.data });
      this.dispatchEvent(message);
      if (this.onmessage) this.onmessage(message);
    };
    addEventListener("message", this.heard);
    inner.document.open();
    inner.document.write(`<!doctype html><script>
      const load = (url) => new Promise((done) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = script.onerror = done;
        document.head.append(script);
      });
      window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());
      window.postMessage = (data) => {
        const message = new MessageEvent("message", { data, source: window });
        parent.dispatchEvent(message);
      };
    <\/script><script src="${url}"><\/script>`);
    inner.document.close();
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    removeEventListener("message", this.heard);
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
