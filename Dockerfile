# Images from one file; `dev` is what .devcontainer opens:
#   docker build --target bench -t volta-bench .  &&  docker run -v "$PWD/runs:/runs" volta-bench
#   docker build --target serve -t volta-serve .  &&  docker run -p 8000:8000 -v "$PWD/model.safetensors:/model.safetensors" volta-serve
FROM python:3.11-slim AS base
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN useradd --create-home volta

FROM python:3.11-slim AS dev
RUN apt-get update && apt-get install --yes --no-install-recommends chromium gcc git make && rm -rf /var/lib/apt/lists/*

FROM base AS bench
RUN pip install --no-cache-dir --constraint constraints.txt '.[bench]' && mkdir /runs && chown volta /runs
USER volta
WORKDIR /runs
ENTRYPOINT ["volta"]
CMD ["bench", "digits", "--ablation", "--out", "/runs/digits"]

FROM base AS serve
RUN pip install --no-cache-dir --constraint constraints.txt '.[bench,serve]' && mkdir /state && chown volta /state
USER volta
WORKDIR /state
EXPOSE 8000
ENTRYPOINT ["volta", "serve"]
CMD ["/model.safetensors", "--host", "0.0.0.0", "--port", "8000", "--state", "/state"]
