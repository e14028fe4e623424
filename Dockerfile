# The live service. Not built in CI: it has no Docker.
#   docker build -t fashioniq .
#   docker run -p 8000:8000 -v ./runs:/srv/runs -v ./data:/srv/data fashioniq --run runs/retriever-dresses
# The user of the container, of id 1000, must be able to write ./runs, where the database is. Without --run, it serves
# the models that are active there. Requests from outside the container need a key: docker exec CONTAINER fashioniq api-key
FROM python:3.11-slim

COPY setup.cfg pyproject.toml README.md LICENSE constraints.txt /src/
COPY fashioniq /src/fashioniq
RUN pip install --no-cache-dir --constraint /src/constraints.txt \
        --extra-index-url https://download.pytorch.org/whl/cpu '/src[cpu,postgres]' \
    && rm -r /src \
    && useradd --create-home --uid 1000 shop && mkdir /srv/runs /srv/data && chown shop /srv/runs /srv/data

USER shop
WORKDIR /srv
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import httpx; httpx.get('http://127.0.0.1:8000/readyz', trust_env=False).raise_for_status()"]
ENTRYPOINT ["fashioniq", "serve", "--host", "0.0.0.0"]
